// SentencePiece's table of replacements (`precompiled_charsmap`): a double array of prefixes, then
// the replacements, each ended by a zero byte (pure).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

// Thread-safe once built.
class ReplacementTable {
 public:
  // DataError for a table that ends early. What leads beyond its end is found where a text leads
  // there.
  explicit ReplacementTable(std::string_view table);

  struct Match {
    size_t bytes;  // of the text, at least 1
    std::string_view replacement;
  };
  // The shortest and the longest of the prefixes of `text` that have a replacement. DataError where
  // the table leads beyond its end, into a character, through more than 128 bytes of a key, or to
  // a replacement of more than 1024.
  std::optional<Match> shortest(std::string_view text) const;
  std::optional<Match> longest(std::string_view text) const;

 private:
  uint32_t unit(uint32_t at) const;
  template <class OnPrefix>
  void for_each_prefix(std::string_view text, const OnPrefix& on_prefix) const;
  std::string_view replacement_at(uint32_t place) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace ds
