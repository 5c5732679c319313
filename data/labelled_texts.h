// Texts, or pairs of them, that are each of a class: read, encoded and held in memory, as samples
// of one length. A sample that is shorter is padded, and of a longer one the ends of its texts are
// cut off, as transformers cuts the longest first.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "data/record_source.h"
#include "data/score_values.h"
#include "data/tokenizer/tokenizer_frame.h"
#include "data/tokens/dataset.h"

namespace ds {

// What is read of a record, and how it becomes a sample.
struct LabelledForm {
  std::string text, label;                 // names of fields or columns
  std::optional<std::string> text_pair{};  // of the second text
  ScoreLabels labels{};
  SampleLength length{};
  TokenizerFrame frame{};
  PairFrame pair_frame{};
  // A token that does not count at the end of a sample, where the last one that does is scored.
  std::optional<int64_t> padding{};
};

// A sample as numbers, none of which is negative: its tokens and padding, how many are no padding,
// where the second segment begins (at the padding, if there is none), its class, or 0 where it has
// values, and those, each as the upper and the lower half of its bits.
struct LabelledSample {
  std::span<const int32_t> tokens;  // with padding
  int64_t size = 0;
  int64_t second_segment = 0;
  int32_t label = 0;
  std::span<const int32_t> halves{};  // of values

  float value(size_t i) const;
};
// How many numbers there are of samples of so many tokens and values.
int64_t numbers_of_labelled(int64_t tokens, int64_t values);
LabelledSample labelled_sample(std::span<const int32_t> numbers, int64_t values);

// The samples of all records of the files, in order, as a run of such numbers with one more at its
// end, so that a SampleSet of numbers_of_labelled() has each as a sample.
// InputMissing, DataError and Unsupported as records and tokenizers are refused; DataError also for
// a class that is not among the labels, for a record without any token, and without any record.
std::shared_ptr<const TokenSource> open_labelled_texts(FileSystem& files,
                                                       std::span<const std::string> paths,
                                                       const Tokenizer& tokenizer,
                                                       const LabelledForm& form);

// How many tokens are kept of two texts that may have `room` together.
struct KeptOfPair {
  int64_t first = 0, second = 0;
};
KeptOfPair cut_longest(int64_t first, int64_t second, int64_t room);

}  // namespace ds
