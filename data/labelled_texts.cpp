#include "data/labelled_texts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/class_names.h"
#include "data/record_source.h"
#include "data/text/byte_stream.h"
#include "data/text/path_pattern.h"
#include "data/text/records.h"

namespace ds {
namespace {

constexpr int32_t kPadding = 0;  // nobody looks at it
constexpr int64_t kNumbersBesideTokens = 3;
constexpr int kHalfBits = 16;
constexpr uint32_t kLowerHalf = 0xffff;

class LabelledTexts final : public RecordSource {
 public:
  LabelledTexts(const SampleLength& length, int64_t values)
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
  void add(const Sample& sample, int64_t line) {
    add_record(line, sample.is_cut ? Kept::kBeginning : Kept::kWhole);
    ids_.insert(ids_.end(), sample.ids.begin(), sample.ids.end());
    ends_.push_back(narrow<int64_t>(ids_.size()));
    places_.push_back(
        {.second_segment = narrow<int32_t>(sample.second_segment), .label = sample.label});
    values_.insert(values_.end(), sample.values.begin(), sample.values.end());
  }

 private:
  struct Place {
    int32_t second_segment = 0, label = 0;
  };
  int32_t number(int64_t sample, int64_t index) const override {
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

  int32_t half_of_value(int64_t sample, int64_t half) const {
    const auto bits = std::bit_cast<uint32_t>(nth(values_, sample * value_count_ + half / 2));
    return narrow<int32_t>(half % 2 == 0 ? bits >> kHalfBits : bits & kLowerHalf);
  }

  int64_t length_, value_count_;
  std::vector<int32_t> ids_;
  std::vector<int64_t> ends_;
  std::vector<Place> places_;
  std::vector<float> values_;
};

using Sample = LabelledTexts::Sample;

void append(std::vector<int32_t>& to, std::span<const int32_t> ids, int64_t count) {
  to.insert(to.end(), ids.begin(), ids.begin() + count);
}

Sample sample_of(const LabelledForm& form, std::span<const int32_t> text) {
  const TokenizerFrame& frame = form.frame;
  const int64_t room = room_around(form.length, frame.before.size() + frame.after.size());
  Sample sample{.ids = frame.before};
  append(sample.ids, text, std::min(std::ssize(text), room));
  sample.is_cut = std::ssize(text) > room;
  append(sample.ids, frame.after, std::ssize(frame.after));
  sample.second_segment = std::ssize(sample.ids);
  return sample;
}

Sample sample_of(const LabelledForm& form, std::span<const int32_t> first,
                 std::span<const int32_t> second) {
  const PairFrame& frame = form.pair_frame;
  const int64_t room =
      room_around(form.length, frame.before.size() + frame.between.size() + frame.after.size());
  const KeptOfPair kept = cut_longest(std::ssize(first), std::ssize(second), room);
  Sample sample{.ids = frame.before};
  append(sample.ids, first, kept.first);
  append(sample.ids, frame.between, std::ssize(frame.between));
  sample.second_segment = std::ssize(sample.ids);
  append(sample.ids, second, kept.second);
  sample.is_cut = kept.first < std::ssize(first) || kept.second < std::ssize(second);
  append(sample.ids, frame.after, std::ssize(frame.after));
  if (!frame.has_segments) sample.second_segment = std::ssize(sample.ids);
  return sample;
}

void add_file(LabelledTexts& texts, const RecordText& file, const Tokenizer& tokenizer,
              const LabelledForm& form) {
  std::vector<RecordField> fields{{.name = form.label, .may_be_list = form.labels.values() > 0},
                                  {.name = form.text}};
  if (form.text_pair) fields.push_back({.name = *form.text_pair});
  for_each_record(file, fields, [&](std::span<const std::string> values, int64_t line) {
    const std::string where = fmt::format("{}:{}", file.path, line);
    const std::vector<int32_t> first = tokenizer.encode(values[1]);
    Sample sample = form.text_pair ? sample_of(form, first, tokenizer.encode(values[2]))
                                   : sample_of(form, first);
    if (sample.ids.empty()) throw DataError(fmt::format("{}: there is no token in it", where));
    while (form.padding && sample.ids.size() > 1 && sample.ids.back() == *form.padding) {
      sample.ids.pop_back();
    }
    sample.second_segment = std::min(sample.second_segment, std::ssize(sample.ids));
    if (form.labels.values() > 0) {
      sample.values = score_values(form.labels, values[0], where);
    } else {
      sample.label = class_of(form.labels.names, values[0], where);
    }
    texts.add(sample, line);
  });
}

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

std::shared_ptr<const TokenSource> open_labelled_texts(FileSystem& files,
                                                       std::span<const std::string> paths,
                                                       const Tokenizer& tokenizer,
                                                       const LabelledForm& form) {
  auto texts = std::make_shared<LabelledTexts>(form.length, form.labels.values());
  for (const std::string& path : expand_paths(files, paths)) {
    const RecordLayout layout = layout_of(files, path, record_layout);
    const std::string content = read_decompressed(files, path);
    texts->begin_file(path);
    add_file(*texts, {.content = content, .path = path, .layout = layout}, tokenizer, form);
  }
  if (texts->count() == 0) {
    throw DataError(fmt::format("{}: there is no record in it", fmt::join(paths, ", ")));
  }
  return texts;
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

}  // namespace ds
