// Samples of one text or two, padded to one length, that are each of a class or have values: held
// in memory, and read as numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/record_source.h"
#include "data/tokenizer/tokenizer_frame.h"

namespace ds {

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

class LabelledSamples final : public RecordSource {
 public:
  LabelledSamples(const SampleLength& length, int64_t values)
      : RecordSource({.numbers = numbers_of_labelled(length.tokens, values), .length = length}),
        length_(length.tokens),
        value_count_(values) {}

  struct Sample {
    std::vector<int32_t> ids;
    int64_t second_segment = 0;
    int32_t label = 0;
    std::vector<float> values{};  // in the place of a class
    bool is_cut = false;
  };
  void add(const Sample& sample, int64_t line);

 private:
  struct Place {
    int32_t second_segment = 0, label = 0;
  };
  int32_t number(int64_t sample, int64_t index) const override;
  int32_t half_of_value(int64_t sample, int64_t half) const;

  int64_t length_, value_count_;
  std::vector<int32_t> ids_;
  std::vector<int64_t> ends_;
  std::vector<Place> places_;
  std::vector<float> values_;
};

// How many tokens are kept of two texts that may have `room` together.
struct KeptOfPair {
  int64_t first = 0, second = 0;
};
KeptOfPair cut_longest(int64_t first, int64_t second, int64_t room);

// Tokens that are left for both texts beside those of the frame. ConfigError if there are none.
int64_t room_of_pair(const PairFrame& frame, const SampleLength& length);

void append_ids(std::vector<int32_t>& to, std::span<const int32_t> ids);

// What is left of a first text that is too long. The second one always loses its end.
enum class KeptOfFirst : uint8_t { kBeginning, kEnd };
// The sample of two texts in a frame, of which both are cut as cut_longest() says.
LabelledSamples::Sample sample_of_pair(const PairFrame& frame, const SampleLength& length,
                                       std::span<const int32_t> first,
                                       std::span<const int32_t> second, KeptOfFirst kept_of_first);

}  // namespace ds
