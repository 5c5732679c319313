// Sentences of words that each have a class: read, encoded word by word and held in memory, as
// samples of one length. A sample that is shorter is padded, and a longer one loses its end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "data/record_source.h"
#include "data/text/sentences.h"
#include "data/tokenizer/tokenizer_frame.h"
#include "data/tokens/dataset.h"

namespace ds {

enum class CountedTokens { kFirstOfWord, kAllOfWord };
enum class BeforeWords { kNothing, kSpace };  // for tokenizers that work on bytes

// What is read of a sentence, and how it becomes a sample.
struct TaggedForm {
  SentenceFields fields{};
  std::vector<std::string> labels{};  // names of the classes, by their numbers
  SampleLength length{};
  TokenizerFrame frame{};
  CountedTokens counted = CountedTokens::kFirstOfWord;
  BeforeWords before = BeforeWords::kSpace;
};

// A sample as numbers, none of which is negative: its tokens and padding, for each of them its
// class and 1, or 0 where none counts, and how many are no padding.
constexpr int64_t numbers_of_tagged(int64_t length) { return 2 * length + 1; }
struct TaggedSample {
  std::span<const int32_t> tokens, classes;  // with padding
  int64_t size = 0;
};
TaggedSample tagged_sample(std::span<const int32_t> numbers);

// The samples of all sentences of the files, in order, as a run of such numbers with one more at
// its end, so that a SampleSet of numbers_of_tagged(form.length) has each as a sample.
// InputMissing, DataError and Unsupported as sentences and tokenizers are refused; DataError also
// for a class that is not among the labels, for a sample without any token, and without any
// sentence.
std::shared_ptr<const TokenSource> open_tagged_words(FileSystem& files,
                                                     std::span<const std::string> paths,
                                                     const Tokenizer& tokenizer,
                                                     const TaggedForm& form);

}  // namespace ds
