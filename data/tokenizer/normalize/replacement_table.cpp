#include "data/tokenizer/normalize/replacement_table.h"

#include <cstring>

#include "core/status/error.h"
#include "data/text/text_kind.h"
#include "data/tokenizer/text/unicode.h"

namespace ds {
namespace {

constexpr uint32_t kLabel = (uint32_t{1} << 31) | 0xff;
constexpr uint32_t kValue = (uint32_t{1} << 31) - 1;
constexpr uint32_t kHasValue = uint32_t{1} << 8;

// Keys are some characters long, and a table that leads back into itself must not make a text cost
// more than this for each of its bytes.
constexpr size_t kLongestKey = 128;  // bytes
constexpr size_t kLongestReplacement = 1024;

uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }

}  // namespace

ReplacementTable::ReplacementTable(std::string_view table) {
  uint32_t bytes = 0;  // of the double array, little-endian as this machine is
  if (table.size() < sizeof(bytes)) throw DataError("precompiled_charsmap: too short for a table");
  std::memcpy(&bytes, table.data(), sizeof(bytes));
  if (bytes < sizeof(uint32_t) || bytes % sizeof(uint32_t) != 0 ||
      bytes > table.size() - sizeof(bytes)) {
    throw DataError("precompiled_charsmap: its double array has " + std::to_string(bytes) +
                    " bytes, which are not there");
  }
  replacements_ = table.substr(sizeof(bytes) + bytes);
  if (first_invalid_utf8(replacements_) != std::string::npos)
    throw DataError("precompiled_charsmap: its replacements are no UTF-8");
  units_.resize(bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), table.data() + sizeof(bytes), bytes);
}

uint32_t ReplacementTable::unit(uint32_t at) const {
  if (at < units_.size()) return units_[at];
  throw DataError("tokenizer: precompiled_charsmap leads beyond its end");
}

// A double array (Aoe 1989) in the layout of Darts-clone: from the unit at `node`, the unit of the
// next byte lies at the exclusive or of the node, its offset and the byte, and carries the byte as
// its label. No walk is longer than the text, or than kLongestKey, wherever the offsets
// lead.
template <class OnPrefix>
void ReplacementTable::for_each_prefix(std::string_view text, const OnPrefix& on_prefix) const {
  uint32_t node = offset(unit(0));
  for (size_t length = 1; length <= text.size(); ++length) {
    const auto byte = static_cast<unsigned char>(text[length - 1]);
    if (byte == 0) return;
    node ^= byte;
    const uint32_t here = unit(node);
    if ((here & kLabel) != byte) return;
    if (length > kLongestKey) {
      throw DataError("tokenizer: precompiled_charsmap has a key of more than " +
                      std::to_string(kLongestKey) + " bytes");
    }
    node ^= offset(here);
    if ((here & kHasValue) != 0 && !on_prefix(length, unit(node) & kValue)) return;
  }
}

std::string_view ReplacementTable::replacement_at(uint32_t place) const {
  if (place > replacements_.size())
    throw DataError("tokenizer: precompiled_charsmap names a replacement beyond its end");
  if (place < replacements_.size() && is_continuation(replacements_[place]))
    throw DataError("tokenizer: precompiled_charsmap names a replacement inside a character");
  const std::string_view rest =
      std::string_view(replacements_).substr(place, kLongestReplacement + 1);
  const std::string_view out = rest.substr(0, rest.find('\0'));
  if (out.size() > kLongestReplacement) {
    throw DataError(
        fmt::format("tokenizer: precompiled_charsmap has a replacement of more than {} bytes",
                    kLongestReplacement));
  }
  return out;
}

std::optional<ReplacementTable::Match> ReplacementTable::shortest(std::string_view text) const {
  std::optional<Match> out;
  for_each_prefix(text, [&](size_t length, uint32_t place) {
    out = Match{length, replacement_at(place)};
    return false;
  });
  return out;
}

std::optional<ReplacementTable::Match> ReplacementTable::longest(std::string_view text) const {
  size_t bytes = 0;
  uint32_t found = 0;
  for_each_prefix(text, [&](size_t length, uint32_t place) {
    bytes = length;
    found = place;
    return true;
  });
  if (bytes == 0) return std::nullopt;
  return Match{bytes, replacement_at(found)};
}

}  // namespace ds
