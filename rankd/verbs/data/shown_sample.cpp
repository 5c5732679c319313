#include "rankd/verbs/data/shown_sample.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text/utf8.h"
#include "core/values/index.h"
#include "data/document_rows.h"
#include "data/supervised/supervised_samples.h"
#include "data/supervised/token_places.h"

namespace ds {
namespace {

// Rows of a sample, each with the next token as its target or none.
struct Rows {
  std::vector<int32_t> tokens, targets, positions;
};

ShownSample of_rows(const Rows& rows, size_t size) {
  ShownSample sample;
  sample.tokens.assign(rows.tokens.begin(), rows.tokens.begin() + narrow<int64_t>(size));
  sample.learnt.assign(size, 0);
  for (size_t t = 0; t < size; ++t) {
    if (rows.positions[t] == 0) sample.examples.push_back(narrow<int64_t>(t));
    if (t > 0 && rows.targets[t - 1] >= 0) sample.learnt[t] = 1;
  }
  return sample;
}

ShownSample of_supervised(std::span<const int32_t> numbers) {
  const size_t length = numbers.size() / to_size(numbers_of_supervised(1));
  Rows rows{std::vector<int32_t>(length), std::vector<int32_t>(length),
            std::vector<int32_t>(length)};
  write_supervised(numbers, {.tokens = rows.tokens,
                             .targets = rows.targets,
                             .positions = rows.positions,
                             .key_ranges = {}});
  // Padding stands at the end, each token of it at position 0; an example has at least two.
  size_t size = length;
  while (size > 1 && rows.positions[size - 1] == 0) --size;
  return of_rows(rows, size);
}

ShownSample of_text(std::span<const int32_t> numbers, const DocumentRules& rules) {
  Rows rows{{numbers.begin(), numbers.end()}, {numbers.begin() + 1, numbers.end()}, {}};
  rows.positions.assign(rows.tokens.size(), 1);
  rows.positions.front() = 0;
  const auto inputs = std::span(rows.tokens).first(rows.targets.size());
  if (rules.end) {
    write_document_positions(rows.tokens, *rules.end, rows.positions);
    if (rules.masks_loss) ignore_targets_of_ends(inputs, *rules.end, rows.targets);
  }
  return of_rows(rows, rows.tokens.size());
}

std::string text_of(std::span<const int32_t> ids, const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return fmt::format("{} ", fmt::join(ids, " "));
  const auto knows = [&](int32_t id) { return tokenizer->knows(id); };
  if (std::ranges::all_of(ids, knows)) return as_utf8(text_within(*tokenizer, ids));
  std::string text;
  for (const int32_t id : ids) {
    text += knows(id) ? tokenizer->in_text(id) : fmt::format("<id {}>", id);
  }
  return as_utf8(text);
}

std::string_view label_of(const ShownSample& sample, size_t token) {
  if (!sample.is_pair) return "";
  if (token == 0) return "chosen";
  return narrow<int64_t>(token) == sample.examples.back() ? "rejected" : "";
}

}  // namespace

ShownSample shown_sample(const SampleSet& set, const SampleRules& rules, int64_t number) {
  std::vector<int32_t> numbers(to_size(set.sequence_length()) + 1);
  set.read(number, numbers);
  ShownSample sample = rules.is_supervised
                           ? of_supervised(std::span(numbers).first(numbers.size() - 1))
                           : of_text(numbers, rules.documents);
  sample.is_pair = rules.has_pairs;
  sample.number = number;
  sample.place = set.locate(number);
  return sample;
}

std::vector<ShownPiece> pieces_of(const ShownSample& sample, const Tokenizer* tokenizer) {
  std::vector<ShownPiece> pieces;
  const auto begins = [&](size_t t) {
    return std::ranges::binary_search(sample.examples, narrow<int64_t>(t));
  };
  for (size_t from = 0; from < sample.tokens.size();) {
    size_t to = from + 1;
    while (to < sample.tokens.size() && sample.learnt[to] == sample.learnt[from] && !begins(to)) {
      ++to;
    }
    pieces.push_back({.text = text_of(std::span(sample.tokens).subspan(from, to - from), tokenizer),
                      .is_learnt = sample.learnt[from] != 0,
                      .begins_example = begins(from),
                      .label = label_of(sample, from)});
    from = to;
  }
  return pieces;
}

std::string title_of(const ShownSample& sample) {
  const size_t examples = sample.examples.size();
  return fmt::format("sample {}, {}: {} tokens{}, {} of them learnt", sample.number, sample.place,
                     sample.tokens.size(),
                     examples > 1 ? fmt::format(" of {} examples", examples) : "",
                     std::ranges::count(sample.learnt, 1));
}

std::string page_of(const ShownSample& sample, const Tokenizer* tokenizer) {
  std::string page = title_of(sample) + "\n";
  for (const ShownPiece& piece : pieces_of(sample, tokenizer)) {
    if (piece.begins_example && !page.ends_with('\n')) page += '\n';
    if (!piece.label.empty()) page += fmt::format("{}: ", piece.label);
    page += piece.is_learnt ? "\u27e6" + piece.text + "\u27e7" : piece.text;
  }
  return page + "\n";
}

Value json_of(const ShownSample& sample, const Tokenizer* tokenizer) {
  std::vector<Value> ids, learnt, examples, pieces;
  for (const int32_t id : sample.tokens) ids.push_back(Value::integer(id));
  for (const uint8_t one : sample.learnt) learnt.push_back(Value::integer(one));
  for (const int64_t begin : sample.examples) examples.push_back(Value::integer(begin));
  for (const ShownPiece& piece : pieces_of(sample, tokenizer)) {
    Value& one = pieces.emplace_back(Value::object());
    one.set("text", Value::string(piece.text));
    one.set("learnt", Value::boolean(piece.is_learnt));
    if (!piece.label.empty()) one.set("begins", Value::string(std::string(piece.label)));
  }
  Value out = Value::object();
  out.set("sample", Value::integer(sample.number));
  out.set("place", Value::string(sample.place));
  out.set("ids", Value::list(std::move(ids)));
  out.set("learnt", Value::list(std::move(learnt)));
  out.set("examples", Value::list(std::move(examples)));
  out.set("pieces", Value::list(std::move(pieces)));
  return out;
}

}  // namespace ds
