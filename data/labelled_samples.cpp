#include "data/labelled_samples.h"

#include <algorithm>
#include <bit>

#include "core/values/index.h"

namespace ds {
namespace {

constexpr int32_t kPadding = 0;  // nobody looks at it
constexpr int64_t kNumbersBesideTokens = 3;
constexpr int kHalfBits = 16;
constexpr uint32_t kLowerHalf = 0xffff;

}  // namespace

int64_t numbers_of_labelled(int64_t tokens, int64_t values) {
  return tokens + kNumbersBesideTokens + 2 * values;
}

LabelledSample labelled_sample(std::span<const int32_t> numbers, int64_t values) {
  const size_t length = numbers.size() - to_size(numbers_of_labelled(0, values));
  return {.tokens = numbers.first(length),
          .size = numbers[length],
          .second_segment = numbers[length + 1],
          .label = numbers[length + 2],
          .halves = numbers.last(to_size(2 * values))};
}

float LabelledSample::value(size_t i) const {
  const auto upper = static_cast<uint32_t>(halves[2 * i]);
  const auto lower = static_cast<uint32_t>(halves[2 * i + 1]);
  return std::bit_cast<float>(upper << kHalfBits | lower);
}

void LabelledSamples::add(const Sample& sample, int64_t line) {
  add_record(line, sample.is_cut ? Kept::kBeginning : Kept::kWhole);
  ids_.insert(ids_.end(), sample.ids.begin(), sample.ids.end());
  ends_.push_back(narrow<int64_t>(ids_.size()));
  places_.push_back(
      {.second_segment = narrow<int32_t>(sample.second_segment), .label = sample.label});
  values_.insert(values_.end(), sample.values.begin(), sample.values.end());
}

int32_t LabelledSamples::number(int64_t sample, int64_t index) const {
  const int64_t begin = sample == 0 ? 0 : nth(ends_, sample - 1);
  const int64_t size = nth(ends_, sample) - begin;
  const Place& place = nth(places_, sample);
  if (index < size) return nth(ids_, begin + index);
  if (index < length_) return kPadding;
  if (index == length_) return narrow<int32_t>(size);
  if (index == length_ + 1) return place.second_segment;
  if (index == length_ + 2) return place.label;
  return half_of_value(sample, index - length_ - kNumbersBesideTokens);
}

int32_t LabelledSamples::half_of_value(int64_t sample, int64_t half) const {
  const auto bits = std::bit_cast<uint32_t>(nth(values_, sample * value_count_ + half / 2));
  return narrow<int32_t>(half % 2 == 0 ? bits >> kHalfBits : bits & kLowerHalf);
}

// The longer text loses tokens until both are equally long, then both do; an odd one is left to the
// second.
KeptOfPair cut_longest(int64_t first, int64_t second, int64_t room) {
  if (first + second <= room) return {.first = first, .second = second};
  const int64_t half = room / 2;
  if (first <= second) {
    return first <= half ? KeptOfPair{.first = first, .second = room - first}
                         : KeptOfPair{.first = half, .second = room - half};
  }
  return second <= half ? KeptOfPair{.first = room - second, .second = second}
                        : KeptOfPair{.first = room - half, .second = half};
}

int64_t room_of_pair(const PairFrame& frame, const SampleLength& length) {
  return room_around(length, frame.before.size() + frame.between.size() + frame.after.size());
}

void append_ids(std::vector<int32_t>& to, std::span<const int32_t> ids) {
  to.insert(to.end(), ids.begin(), ids.end());
}

LabelledSamples::Sample sample_of_pair(const PairFrame& frame, const SampleLength& length,
                                       std::span<const int32_t> first,
                                       std::span<const int32_t> second, KeptOfFirst kept_of_first) {
  const KeptOfPair kept =
      cut_longest(std::ssize(first), std::ssize(second), room_of_pair(frame, length));
  const auto count = to_size(kept.first);
  LabelledSamples::Sample sample{.ids = frame.before};
  append_ids(sample.ids,
             kept_of_first == KeptOfFirst::kEnd ? first.last(count) : first.first(count));
  append_ids(sample.ids, frame.between);
  sample.second_segment = std::ssize(sample.ids);
  append_ids(sample.ids, second.first(to_size(kept.second)));
  sample.is_cut = kept.first < std::ssize(first) || kept.second < std::ssize(second);
  append_ids(sample.ids, frame.after);
  if (!frame.has_segments) sample.second_segment = std::ssize(sample.ids);
  return sample;
}

}  // namespace ds
