#include "data/labelled_texts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/text/number_in.h"
#include "core/values/index.h"
#include "data/text/byte_stream.h"
#include "data/text/path_pattern.h"
#include "data/text/records.h"

namespace ds {
namespace {

constexpr int32_t kPadding = 0;  // nobody looks at it

bool is_numeral(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// The class of a record: by its name, or else its number. Where a name is a numeral, numbers are
// names alone: "1" may be the first class.
int32_t class_of(const std::vector<std::string>& labels, const std::string& value,
                 const std::string& where) {
  const auto named = std::ranges::find(labels, value);
  if (named != labels.end()) return narrow<int32_t>(named - labels.begin());
  const int32_t number = number_in<int32_t>(value).value_or(-1);
  const bool is_class = number >= 0 && number < std::ssize(labels);
  const bool has_numerals = std::ranges::any_of(labels, is_numeral);
  if (is_class && !has_numerals) return number;
  throw DataError(fmt::format("{}: the class \"{}\" is none of the model's, which are \"{}\"{}",
                              where, value, fmt::join(labels, "\", \""),
                              has_numerals ? "" : fmt::format(" (or 0 to {})", labels.size() - 1)));
}

class LabelledTexts final : public TokenSource {
 public:
  explicit LabelledTexts(int64_t length) : length_(length) {}

  struct Sample {
    std::vector<int32_t> ids;
    int64_t second_segment = 0;
    int32_t label = 0;
  };
  void begin_file(const std::string& path) { files_.push_back({path, count()}); }
  void add(const Sample& sample, int64_t line) {
    ids_.insert(ids_.end(), sample.ids.begin(), sample.ids.end());
    ends_.push_back(narrow<int64_t>(ids_.size()));
    places_.push_back({.second_segment = narrow<int32_t>(sample.second_segment),
                       .label = sample.label,
                       .line = line});
  }
  int64_t count() const { return std::ssize(places_); }

  int64_t size() const override { return count() * numbers() + 1; }
  std::optional<int64_t> documents() const override { return count(); }
  void read(int64_t offset, std::span<int32_t> out) const override {
    for (size_t i = 0; i < out.size();) {
      const int64_t at = offset + narrow<int64_t>(i);
      const int64_t sample = at / numbers(), inside = at % numbers();
      if (sample == count()) {
        out[i++] = 0;
        continue;
      }
      const int64_t wanted = std::min(numbers() - inside, narrow<int64_t>(out.size() - i));
      for (int64_t k = inside; k < inside + wanted; ++k) out[i++] = number(sample, k);
    }
  }
  std::string locate(int64_t token) const override {
    const int64_t sample = std::min(token / numbers(), count() - 1);
    const auto after = std::ranges::upper_bound(files_, sample, {}, &OpenedFile::first);
    if (after == files_.begin() || sample < 0) return files_.empty() ? "" : files_.front().path;
    return fmt::format("{}:{}", (after - 1)->path, nth(places_, sample).line);
  }

 private:
  struct Place {
    int32_t second_segment = 0, label = 0;
    int64_t line = 0;
  };
  struct OpenedFile {
    std::string path;
    int64_t first = 0;  // sample
  };
  int64_t numbers() const { return length_ + kNumbersBesideTokens; }
  int32_t number(int64_t sample, int64_t index) const {
    const int64_t begin = sample == 0 ? 0 : nth(ends_, sample - 1);
    const int64_t size = nth(ends_, sample) - begin;
    const Place& place = nth(places_, sample);
    if (index < size) return nth(ids_, begin + index);
    if (index < length_) return kPadding;
    if (index == length_) return narrow<int32_t>(size);
    return index == length_ + 1 ? place.second_segment : place.label;
  }

  int64_t length_;
  std::vector<int32_t> ids_;
  std::vector<int64_t> ends_;
  std::vector<Place> places_;
  std::vector<OpenedFile> files_;
};

using Sample = LabelledTexts::Sample;

void append(std::vector<int32_t>& to, std::span<const int32_t> ids, int64_t count) {
  to.insert(to.end(), ids.begin(), ids.begin() + count);
}

// What is left for texts beside what a tokenizer puts around them.
int64_t room_in(const LabelledForm& form, size_t around) {
  const int64_t room = form.length - narrow<int64_t>(around);
  if (room > 0) return room;
  throw ConfigError(fmt::format(
      "data.sequence_length: {}, of which the tokenizer takes {} around a text; give more",
      form.length, around));
}

Sample sample_of(const LabelledForm& form, std::span<const int32_t> text) {
  const TokenizerFrame& frame = form.frame;
  const int64_t room = room_in(form, frame.before.size() + frame.after.size());
  Sample sample{.ids = frame.before};
  append(sample.ids, text, std::min(std::ssize(text), room));
  append(sample.ids, frame.after, std::ssize(frame.after));
  sample.second_segment = std::ssize(sample.ids);
  return sample;
}

Sample sample_of(const LabelledForm& form, std::span<const int32_t> first,
                 std::span<const int32_t> second) {
  const PairFrame& frame = form.pair_frame;
  const int64_t room =
      room_in(form, frame.before.size() + frame.between.size() + frame.after.size());
  const KeptOfPair kept = cut_longest(std::ssize(first), std::ssize(second), room);
  Sample sample{.ids = frame.before};
  append(sample.ids, first, kept.first);
  append(sample.ids, frame.between, std::ssize(frame.between));
  sample.second_segment = std::ssize(sample.ids);
  append(sample.ids, second, kept.second);
  append(sample.ids, frame.after, std::ssize(frame.after));
  if (!frame.has_segments) sample.second_segment = std::ssize(sample.ids);
  return sample;
}

void add_file(LabelledTexts& texts, const RecordText& file, const Tokenizer& tokenizer,
              const LabelledForm& form) {
  std::vector<std::string> names{form.label, form.text};
  if (form.text_pair) names.push_back(*form.text_pair);
  for_each_record(file, names, [&](std::span<const std::string> values, int64_t line) {
    const std::string where = fmt::format("{}:{}", file.path, line);
    const std::vector<int32_t> first = tokenizer.encode(values[1]);
    Sample sample = form.text_pair ? sample_of(form, first, tokenizer.encode(values[2]))
                                   : sample_of(form, first);
    if (sample.ids.empty()) throw DataError(fmt::format("{}: there is no token in it", where));
    sample.label = class_of(form.labels, values[0], where);
    texts.add(sample, line);
  });
}

}  // namespace

LabelledSample labelled_sample(std::span<const int32_t> numbers) {
  const size_t length = numbers.size() - to_size(kNumbersBesideTokens);
  return {.tokens = numbers.first(length),
          .size = numbers[length],
          .second_segment = numbers[length + 1],
          .label = numbers[length + 2]};
}

std::shared_ptr<const TokenSource> open_labelled_texts(FileSystem& files,
                                                       std::span<const std::string> paths,
                                                       const Tokenizer& tokenizer,
                                                       const LabelledForm& form) {
  auto texts = std::make_shared<LabelledTexts>(form.length);
  for (const std::string& path : expand_paths(files, paths)) {
    const RecordLayout layout = record_layout(path);
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
