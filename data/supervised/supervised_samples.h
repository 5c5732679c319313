// Samples of supervised fine-tuning: examples that are read, cut to one length and held in memory,
// one in a sample or several that are packed into it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "data/record_source.h"
#include "data/supervised/examples.h"
#include "data/supervised/preference_examples.h"
#include "data/tokens/dataset.h"

namespace ds {

// What becomes of an example that is longer than a sample.
enum class LongExamples { kTruncate, kSplit, kDrop };

struct SupervisedForm {
  SampleLength length{};
  int64_t longest = INT64_MAX;  // tokens of one text of a pair
  LongExamples too_long = LongExamples::kTruncate;
  std::optional<int64_t> packing_window{};  // examples; nothing: each has a sample of its own
};

// A sample as numbers, none of which is negative: its tokens and padding, and for each of them
// twice its position in its example and, added to that, 1 where it is learnt. Padding is no
// example: each token of it stands at position 0.
constexpr int64_t numbers_of_supervised(int64_t length) { return 2 * length; }

// What a model is given of such numbers, T of each but of the ranges, which are [T, 2]. Empty ones
// are not written.
struct SupervisedFields {
  std::span<int32_t> tokens, targets, positions, key_ranges;
  std::span<int32_t> sides{};  // of a pair
  // Whether tokens of the first example that are not learnt are targets, too, of
  // kernels::kPromptSide.
  enum class Prompts : uint8_t { kUntold, kOfFirst };
  Prompts prompts = Prompts::kUntold;
};
// The target of a token is the next one of its example where that is learnt, or else -1, and a
// token sees those of its example. Its side is 1 where it has a target and is of the first example
// of its sample, -1 of the second, and 0 without a target. InternalError for sides of a sample
// with targets in further ones.
void write_supervised(std::span<const int32_t> numbers, const SupervisedFields& fields);

// The samples of all records of the files, in order, as a run of such numbers with one more at its
// end, so that a SampleSet of numbers_of_supervised() has each as a sample. Its notes count the
// examples that are cut, split or left out (which teach nothing, or are too long), with the place
// of the first one. Packing goes over all files.
// InputMissing, DataError and Unsupported as records are refused; DataError also where no example
// is left.
std::shared_ptr<const TokenSource> open_supervised(FileSystem& files,
                                                   std::span<const std::string> paths,
                                                   const ExampleReader& reader,
                                                   const SupervisedForm& form);

// The same of pairs, of which each is a sample: the chosen sequence, and directly behind it the
// rejected one. A pair is too long if both together are, or one of them for itself; cut, a sequence
// keeps half of the sample, or what the other one leaves of it. A pair that teaches nothing on
// either side is left out. Pairs are neither packed nor split.
std::shared_ptr<const TokenSource> open_preferences(FileSystem& files,
                                                    std::span<const std::string> paths,
                                                    const PairReader& reader,
                                                    const SupervisedForm& form);

}  // namespace ds
