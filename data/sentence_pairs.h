// Pairs of texts for next sentence prediction (Devlin et al., arXiv 1810.04805, appendix A.2): the
// second of two texts goes on where the first one ends, or is from another document. A text file
// has a sentence a line and an empty line between documents; of JSON lines each text is a document,
// with a sentence a line. Which pairs there are follows from the texts and the rules alone, so that
// runs with other seeds are trained on the same ones.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "core/values/rng.h"
#include "data/labelled_samples.h"
#include "data/tokenizer/tokenizer.h"

namespace ds {

// The classes of a pair, as transformers' next_sentence_label has them.
inline constexpr int32_t kGoesOn = 0, kFromElsewhere = 1;

struct PairRules {
  double random_prob = 0.5;  // share of the pairs whose second text is from elsewhere
  double short_prob = 0.1;   // share of those that are made for less than a sample's room
};

// Sentences as tokens, one after the other; each ends at a place of the run of all tokens, and each
// document at a sentence.
struct SentenceRun {
  std::vector<int32_t> ids;
  std::vector<int64_t> sentence_ends;
  std::vector<int64_t> document_ends;

  int64_t documents() const { return std::ssize(document_ends); }
  // The tokens of sentences [begin, end).
  std::span<const int32_t> tokens(int64_t begin, int64_t end) const;
};

// Two runs of sentences.
struct SentencePair {
  int64_t first_begin = 0, first_end = 0;
  int64_t second_begin = 0, second_end = 0;
  int32_t label = kGoesOn;
};
// The pairs that begin in one document, of which each sentence is in one (pure): the first texts of
// all are the document, but for those that a pair has behind its first one. `room`: tokens for both
// texts. A document of one sentence has a pair from elsewhere, so there must be another document.
std::vector<SentencePair> pairs_of_document(const SentenceRun& all, int64_t document, int64_t room,
                                            const PairRules& rules, const Rng& rng);

struct PairForm {
  std::string field = "text";  // of JSON lines
  SampleLength length{};
  PairFrame frame{};
  PairRules rules{};
};
// The samples of all pairs of the files, in the order of their documents, as labelled_sample()
// without values reads them. InputMissing, DataError and Unsupported as texts and tokenizers are
// refused; DataError also where there are not two documents.
std::shared_ptr<const TokenSource> open_sentence_pairs(FileSystem& files,
                                                       std::span<const std::string> paths,
                                                       const Tokenizer& tokenizer,
                                                       const PairForm& form);

}  // namespace ds
