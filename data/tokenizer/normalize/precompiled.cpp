#include <cstring>
#include <optional>

#include "core/status/error.h"
#include "data/text/text_kind.h"
#include "data/tokenizer/normalize/normalizer.h"

namespace ds {
namespace {

// A double array (Aoe 1989) in the layout of Darts-clone: from the unit at `node`, the unit of the
// next byte lies at the exclusive or of the node, its offset and the byte, and carries the byte as
// its label.
class DoubleArray {
 public:
  explicit DoubleArray(std::vector<uint32_t> units) : units_(std::move(units)) {}

  // The value of the shortest prefix of `key` that has one.
  std::optional<uint32_t> shortest_prefix(std::string_view key) const {
    uint32_t node = offset(unit(0));
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) return std::nullopt;
      node ^= byte;
      const uint32_t here = unit(node);
      if ((here & kLabel) != byte) return std::nullopt;
      node ^= offset(here);
      if (((here >> 8) & 1U) != 0) return unit(node) & kValue;
    }
    return std::nullopt;
  }

 private:
  static constexpr uint32_t kLabel = (uint32_t{1} << 31) | 0xff;
  static constexpr uint32_t kValue = (uint32_t{1} << 31) - 1;
  static uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }
  uint32_t unit(uint32_t at) const {
    if (at < units_.size()) return units_[at];
    throw DataError("tokenizer: precompiled_charsmap leads beyond its end");
  }

  std::vector<uint32_t> units_;
};

class Precompiled final : public Normalizer {
 public:
  Precompiled(DoubleArray prefixes, std::string replacements)
      : prefixes_(std::move(prefixes)), replacements_(std::move(replacements)) {}

  std::string apply(std::string_view text, PatternWork&) const override {
    constexpr size_t kLongestLookedUp = 5;  // bytes
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const std::string_view whole = text.substr(at, unicode::grapheme_bytes(text.substr(at)));
      at += whole.size();
      if (whole.size() <= kLongestLookedUp) {
        if (const auto replacement = find(whole)) {
          out += *replacement;
          continue;
        }
      }
      unicode::for_each_character(whole, [&](char32_t, size_t begin, size_t bytes) {
        const std::string_view character = whole.substr(begin, bytes);
        out += find(character).value_or(character);
      });
    }
    return out;
  }

 private:
  std::optional<std::string_view> find(std::string_view key) const {
    const auto place = prefixes_.shortest_prefix(key);
    if (!place) return std::nullopt;
    if (*place > replacements_.size())
      throw DataError("tokenizer: precompiled_charsmap names a replacement beyond its end");
    if (*place < replacements_.size() && is_continuation(replacements_[*place]))
      throw DataError("tokenizer: precompiled_charsmap names a replacement inside a character");
    const std::string_view rest = std::string_view(replacements_).substr(*place);
    return rest.substr(0, rest.find('\0'));
  }

  DoubleArray prefixes_;
  std::string replacements_;
};

}  // namespace

std::unique_ptr<Normalizer> precompiled(std::string table) {
  uint32_t bytes = 0;  // of the double array, little-endian as this machine is
  if (table.size() < sizeof(bytes)) throw DataError("precompiled_charsmap: too short for a table");
  std::memcpy(&bytes, table.data(), sizeof(bytes));
  if (bytes < sizeof(uint32_t) || bytes % sizeof(uint32_t) != 0 ||
      bytes > table.size() - sizeof(bytes)) {
    throw DataError("precompiled_charsmap: its double array has " + std::to_string(bytes) +
                    " bytes, which are not there");
  }
  std::string replacements = table.substr(sizeof(bytes) + bytes);
  if (first_invalid_utf8(replacements) != std::string::npos)
    throw DataError("precompiled_charsmap: its replacements are no UTF-8");
  std::vector<uint32_t> units(bytes / sizeof(uint32_t));
  std::memcpy(units.data(), table.data() + sizeof(bytes), bytes);
  return std::make_unique<Precompiled>(DoubleArray(std::move(units)), std::move(replacements));
}

}  // namespace ds
