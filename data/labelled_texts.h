// Texts, or pairs of them, that are each of a class: read, encoded and held in memory, as samples
// of one length. A sample that is shorter is padded, and of a longer one the ends of its texts are
// cut off, as transformers cuts the longest first.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "data/labelled_samples.h"
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

// The samples of all records of the files, in order, as a run of such numbers with one more at its
// end, so that a SampleSet of numbers_of_labelled() has each as a sample.
// InputMissing, DataError and Unsupported as records and tokenizers are refused; DataError also for
// a class that is not among the labels, for a record without any token, and without any record.
std::shared_ptr<const TokenSource> open_labelled_texts(FileSystem& files,
                                                       std::span<const std::string> paths,
                                                       const Tokenizer& tokenizer,
                                                       const LabelledForm& form);

}  // namespace ds
