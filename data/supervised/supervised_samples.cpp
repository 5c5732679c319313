#include "data/supervised/supervised_samples.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/supervised/packing.h"
#include "data/text/byte_stream.h"
#include "data/text/path_pattern.h"
#include "data/text/record_objects.h"
#include "kernels/preference/preference_operands.h"

namespace ds {
namespace {

constexpr int32_t kPadding = 0;  // nobody looks at it
constexpr int32_t kNoTarget = -1;

bool teaches(std::span<const uint8_t> loss_mask) {
  return loss_mask.size() > 1 && std::ranges::find(loss_mask.subspan(1), 1) != loss_mask.end();
}

// Examples of one kind, with the place of the first one.
struct Tally {
  int64_t count = 0;
  std::string first{};
  void add(const RecordPlace& place) {
    if (count++ == 0) first = fmt::format("{}:{}", place.path, place.line);
  }
};

// What is a record, and how notes speak of it.
struct RecordKind {
  int64_t examples = 1;
  const char* length = "are";
  const char* cut = "lose their end";
  const char* idle = "have no token that is learnt and are left out";
};
constexpr RecordKind kPairs{
    .examples = 2,
    .length = "have two sequences that are together",
    .cut = "lose the end of one or both",
    .idle = "have a sequence without a token that is learnt and are left out"};

class SupervisedSamples final : public TokenSource {
 public:
  SupervisedSamples(SupervisedForm form, RecordKind kind) : form_(std::move(form)), kind_(kind) {}

  void begin_file(const std::string& path) { paths_.push_back(path); }
  void add(const SupervisedTokens& example, const RecordPlace& place);
  void add(const PreferencePair& pair, const RecordPlace& place);
  void pack();

  int64_t examples() const { return std::ssize(lines_); }
  int64_t records() const { return records_; }
  int64_t size() const override { return samples() * numbers() + 1; }
  std::optional<int64_t> documents() const override { return examples() / kind_.examples; }
  void read(int64_t offset, std::span<int32_t> out) const override;
  std::string locate(int64_t token) const override;
  std::vector<std::string> notes() const override;

 private:
  int64_t numbers() const { return numbers_of_supervised(form_.length.tokens); }
  int64_t samples() const { return std::ssize(sample_begins_) - 1; }
  int64_t begin_of(int64_t example) const { return example == 0 ? 0 : nth(ends_, example - 1); }
  void add_piece(const SupervisedTokens& example, size_t begin, size_t end, int64_t line);
  void write_sample(int64_t sample, std::span<int32_t> numbers) const;

  const SupervisedForm form_;
  const RecordKind kind_;
  int64_t records_ = 0;
  std::vector<std::string> paths_;
  std::vector<int32_t> ids_;
  std::vector<bool> loss_mask_;
  std::vector<int64_t> ends_;           // of each example, in ids_
  std::vector<int64_t> lines_, files_;  // where each begins
  // Examples by their samples, and where those of each sample begin; the end of the last.
  std::vector<int64_t> packed_, sample_begins_;
  Tally cut_, split_, dropped_, idle_, equal_;
};

void SupervisedSamples::add_piece(const SupervisedTokens& example, size_t begin, size_t end,
                                  int64_t line) {
  ids_.insert(ids_.end(), example.ids.begin() + narrow<int64_t>(begin),
              example.ids.begin() + narrow<int64_t>(end));
  for (size_t i = begin; i < end; ++i) loss_mask_.push_back(example.loss_mask[i] != 0);
  ends_.push_back(std::ssize(ids_));
  lines_.push_back(line);
  files_.push_back(std::ssize(paths_) - 1);
}

void SupervisedSamples::add(const SupervisedTokens& example, const RecordPlace& place) {
  ++records_;
  const size_t size = example.ids.size(), room = to_size(form_.length.tokens);
  const bool is_long = size > room;
  if (is_long && form_.too_long == LongExamples::kDrop) return dropped_.add(place);
  if (is_long) (form_.too_long == LongExamples::kSplit ? split_ : cut_).add(place);
  const size_t end = is_long && form_.too_long == LongExamples::kTruncate ? room : size;
  bool has_taught = false;
  for (size_t at = 0; at < end; at += room) {
    const size_t to = std::min(at + room, end);
    if (!teaches(std::span(example.loss_mask).subspan(at, to - at))) continue;
    add_piece(example, at, to, place.line);
    has_taught = true;
  }
  if (!has_taught) idle_.add(place);
}

void SupervisedSamples::add(const PreferencePair& pair, const RecordPlace& place) {
  ++records_;
  const size_t chosen = pair.chosen.ids.size(), rejected = pair.rejected.ids.size();
  const size_t room = to_size(form_.length.tokens);
  const size_t longest = narrow<size_t>(std::min(form_.longest, form_.length.tokens));
  const bool is_long = chosen + rejected > room || std::max(chosen, rejected) > longest;
  if (is_long && form_.too_long == LongExamples::kDrop) return dropped_.add(place);
  if (is_long) cut_.add(place);
  const auto kept = [&](size_t size, size_t other) {
    return std::min({size, longest, std::max(room / 2, room - std::min(room, other))});
  };
  const size_t of_chosen = kept(chosen, rejected), of_rejected = kept(rejected, chosen);
  if (!teaches(std::span(pair.chosen.loss_mask).first(of_chosen)) ||
      !teaches(std::span(pair.rejected.loss_mask).first(of_rejected))) {
    return idle_.add(place);
  }
  if (std::ranges::equal(std::span(pair.chosen.ids).first(of_chosen),
                         std::span(pair.rejected.ids).first(of_rejected))) {
    return equal_.add(place);
  }
  add_piece(pair.chosen, 0, of_chosen, place.line);
  add_piece(pair.rejected, 0, of_rejected, place.line);
}

void SupervisedSamples::pack() {
  sample_begins_.assign(1, 0);
  if (!form_.packing_window) {
    packed_.resize(to_size(examples()));
    std::iota(packed_.begin(), packed_.end(), int64_t{0});
    for (int64_t i = kind_.examples; i <= examples(); i += kind_.examples) {
      sample_begins_.push_back(i);
    }
    return;
  }
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < examples(); ++i) lengths.push_back(nth(ends_, i) - begin_of(i));
  for (const std::vector<int64_t>& bin :
       pack_best_fit(lengths, {.tokens = form_.length.tokens, .window = *form_.packing_window})) {
    packed_.insert(packed_.end(), bin.begin(), bin.end());
    sample_begins_.push_back(std::ssize(packed_));
  }
}

void SupervisedSamples::write_sample(int64_t sample, std::span<int32_t> numbers) const {
  const size_t length = numbers.size() / 2;
  std::ranges::fill(numbers.first(length), kPadding);
  std::ranges::fill(numbers.subspan(length), 0);
  size_t at = 0;
  for (int64_t i = nth(sample_begins_, sample); i < nth(sample_begins_, sample + 1); ++i) {
    const int64_t example = nth(packed_, i), begin = begin_of(example);
    for (int64_t k = begin; k < nth(ends_, example); ++k, ++at) {
      numbers[at] = nth(ids_, k);
      const bool is_learnt = loss_mask_[to_size(k)] && k > begin;
      numbers[length + at] = narrow<int32_t>(2 * (k - begin) + (is_learnt ? 1 : 0));
    }
  }
}

void SupervisedSamples::read(int64_t offset, std::span<int32_t> out) const {
  std::vector<int32_t> whole(to_size(numbers()));
  for (size_t i = 0; i < out.size();) {
    const int64_t at = offset + narrow<int64_t>(i);
    const int64_t sample = at / numbers(), inside = at % numbers();
    if (sample == samples()) {  // the one number behind them
      out[i++] = 0;
      continue;
    }
    const auto wanted =
        to_size(std::min(numbers() - inside, narrow<int64_t>(out.size()) - narrow<int64_t>(i)));
    write_sample(sample, whole);
    std::ranges::copy(std::span(whole).subspan(to_size(inside), wanted),
                      out.begin() + narrow<int64_t>(i));
    i += wanted;
  }
}

std::string SupervisedSamples::locate(int64_t token) const {
  if (samples() == 0) return paths_.empty() ? "" : paths_.front();
  const int64_t sample = std::min(token / numbers(), samples() - 1);
  const int64_t example = nth(packed_, nth(sample_begins_, sample));
  return fmt::format("{}:{}", nth(paths_, nth(files_, example)), nth(lines_, example));
}

std::vector<std::string> SupervisedSamples::notes() const {
  std::vector<std::string> notes;
  const std::string length = fmt::format("{} longer than {}, {} tokens,", kind_.length,
                                         form_.length.key, form_.length.tokens);
  const auto note = [&](const Tally& tally, const std::string& what) {
    if (tally.count == 0) return;
    notes.push_back(
        fmt::format("{} of {} {}, the first at {}", tally.count, records_, what, tally.first));
  };
  note(cut_, fmt::format("{} and {}", length, kind_.cut));
  note(split_, fmt::format("{} and are split", length));
  note(dropped_, fmt::format("{} and are left out", length));
  note(idle_, kind_.idle);
  note(equal_, "have two sequences that are equal once they are cut and are left out");
  if (form_.packing_window && samples() > 0) {
    notes.push_back(
        fmt::format("{} examples are packed into {} samples, {:.1f} % of whose tokens they are",
                    examples(), samples(),
                    100.0 * static_cast<double>(ids_.size()) /
                        static_cast<double>(samples() * form_.length.tokens)));
  }
  return notes;
}

}  // namespace

void write_supervised(std::span<const int32_t> numbers, const SupervisedFields& fields) {
  const size_t length = numbers.size() / 2;
  const std::span<const int32_t> tokens = numbers.first(length), marks = numbers.subspan(length);
  const auto position = [&](size_t t) { return marks[t] / 2; };
  const auto goes_on = [&](size_t t) {  // whether the next token is of the same example
    return t + 1 < length && position(t + 1) == position(t) + 1;
  };
  if (!fields.tokens.empty()) std::ranges::copy(tokens, fields.tokens.begin());
  size_t told = 0;  // the rows from here on have no prompts
  if (fields.prompts == SupervisedFields::Prompts::kOfFirst) {
    while (told + 1 < length && goes_on(told)) ++told;
  }
  const auto is_learnt = [&](size_t t) { return goes_on(t) && marks[t + 1] % 2 == 1; };
  for (size_t t = 0; t < fields.targets.size(); ++t) {
    fields.targets[t] = is_learnt(t) || t < told ? tokens[t + 1] : kNoTarget;
  }
  for (size_t t = 0; t < fields.positions.size(); ++t) fields.positions[t] = position(t);
  int example = -1;
  for (size_t t = 0; t < fields.sides.size(); ++t) {
    if (position(t) == 0) ++example;
    const bool has_side = is_learnt(t);
    DS_CHECK(!has_side || example < 2, "sides: example {} of a sample, expected a pair",
             example + 1);
    fields.sides[t] = has_side ? (example == 0 ? 1 : -1) : t < told ? kernels::kPromptSide : 0;
  }
  if (fields.key_ranges.empty()) return;
  size_t end = length;
  for (size_t t = length; t-- > 0;) {
    if (!goes_on(t)) end = t + 1;
    fields.key_ranges[2 * t] = narrow<int32_t>(t) - position(t);
    fields.key_ranges[2 * t + 1] = narrow<int32_t>(end);
  }
}

namespace {

// `read` makes examples, or pairs, of objects.
std::shared_ptr<const TokenSource> open_records(FileSystem& files,
                                                std::span<const std::string> paths,
                                                std::shared_ptr<SupervisedSamples> samples,
                                                const auto& read) {
  for (const std::string& path : expand_paths(files, paths)) {
    const RecordLayout layout = layout_of(files, path, record_layout);
    const std::string content = read_decompressed(files, path);
    samples->begin_file(path);
    for_each_object({.content = content, .path = path, .layout = layout},
                    [&](const rapidjson::Value& object, int64_t line) {
                      const RecordPlace place{.path = path, .line = line};
                      samples->add(read(object, place), place);
                    });
  }
  samples->pack();
  if (samples->examples() > 0) return samples;
  const std::vector<std::string> notes = samples->notes();
  throw DataError(fmt::format("{}: {}", fmt::join(paths, ", "),
                              samples->records() == 0 ? "there is no record in it"
                                                      : fmt::format("{}", fmt::join(notes, "; "))));
}

}  // namespace

std::shared_ptr<const TokenSource> open_supervised(FileSystem& files,
                                                   std::span<const std::string> paths,
                                                   const ExampleReader& reader,
                                                   const SupervisedForm& form) {
  return open_records(files, paths, std::make_shared<SupervisedSamples>(form, RecordKind()),
                      [&](const rapidjson::Value& object, const RecordPlace& place) {
                        return reader.read(object, place);
                      });
}

std::shared_ptr<const TokenSource> open_preferences(FileSystem& files,
                                                    std::span<const std::string> paths,
                                                    const PairReader& reader,
                                                    const SupervisedForm& form) {
  DS_CHECK(!form.packing_window && form.too_long != LongExamples::kSplit,
           "pairs are neither packed nor split");
  return open_records(files, paths, std::make_shared<SupervisedSamples>(form, kPairs),
                      [&](const rapidjson::Value& object, const RecordPlace& place) {
                        return reader.read(object, place);
                      });
}

}  // namespace ds
