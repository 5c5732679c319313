#include "data/supervised/token_places.h"

#include <algorithm>
#include <string>

#include "core/text/letters.h"

namespace ds {
namespace {

size_t skip_spaces(std::string_view text, size_t from) {
  while (from < text.size() && is_space(text[from])) ++from;
  return from;
}

// The place of the piece at `from`, or behind white space there; nothing: nowhere.
std::optional<chat::TextRange> find_piece(std::string_view text, size_t from,
                                          std::string_view piece) {
  if (text.substr(from).starts_with(piece)) return chat::TextRange{from, from + piece.size()};
  // A word at the beginning of a text has the space that a tokenizer puts before it.
  if (piece.starts_with(' ')) {
    const std::string_view word = piece.substr(1);
    if (text.substr(from).starts_with(word)) return chat::TextRange{from, from + word.size()};
  }
  const size_t begin = skip_spaces(text, from);
  if (begin > from && !piece.empty() && text.substr(begin).starts_with(piece)) {
    return chat::TextRange{begin, begin + piece.size()};
  }
  return std::nullopt;
}

}  // namespace

std::string text_within(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::vector<int32_t> twice(ids.begin(), ids.end());
  twice.insert(twice.end(), ids.begin(), ids.end());
  const std::string both = tokenizer.decode(twice);
  return both.substr(std::min(tokenizer.decode(ids).size(), both.size()));
}

std::optional<std::vector<chat::TextRange>> token_places(const Tokenizer& tokenizer,
                                                         std::string_view text,
                                                         std::span<const int32_t> ids) {
  std::vector<chat::TextRange> places;
  places.reserve(ids.size());
  size_t at = 0;
  for (size_t i = 0; i < ids.size();) {
    // The bytes of a character that are tokens each are a text together alone.
    constexpr size_t kMostBytes = 4;
    size_t count = 1;
    std::optional<chat::TextRange> place = find_piece(text, at, tokenizer.in_text(ids[i]));
    while (!place && count < std::min(kMostBytes, ids.size() - i)) {
      place = find_piece(text, at, text_within(tokenizer, ids.subspan(i, ++count)));
    }
    if (!place) return std::nullopt;
    places.insert(places.end(), count, *place);
    at = place->end;
    i += count;
  }
  if (skip_spaces(text, at) != text.size()) return std::nullopt;
  return places;
}

std::vector<uint8_t> mask_of_places(std::span<const chat::TextRange> places,
                                    std::span<const chat::TextRange> learnt) {
  std::vector<uint8_t> mask(places.size(), 0);
  size_t next = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    while (next < learnt.size() && learnt[next].end <= places[i].begin) ++next;
    if (next == learnt.size()) break;
    mask[i] = learnt[next].begin < places[i].end ? 1 : 0;
  }
  return mask;
}

}  // namespace ds
