#include <algorithm>
#include <optional>

#include "data/tokenizer/normalize/normalizer.h"
#include "data/tokenizer/normalize/replacement_table.h"

namespace ds {
namespace {

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(std::string_view table) : table_(table) {}

  std::string apply(std::string_view text, PatternWork&) const override {
    constexpr size_t kLongestLookedUp = 5;  // bytes
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const std::string_view whole = text.substr(at, unicode::grapheme_bytes(text.substr(at)));
      at += whole.size();
      require_sane_growth(out.size(), text.size());
      if (whole.size() <= kLongestLookedUp) {
        if (const auto match = table_.shortest(whole)) {
          out += match->replacement;
          continue;
        }
      }
      unicode::for_each_character(whole, [&](char32_t, size_t begin, size_t bytes) {
        const std::string_view character = whole.substr(begin, bytes);
        const auto match = table_.shortest(character);
        out += match ? match->replacement : character;
      });
    }
    return out;
  }
  // The reference tells what was taken away at the beginning from nothing.
  size_t beginning(std::string_view text, size_t first, PatternWork& work) const override {
    return first > 0 ? std::max<size_t>(Normalizer::beginning(text, first, work), 1) : 0;
  }
  bool may_be_cut(CutPlaces::Kind) const override { return true; }

 private:
  ReplacementTable table_;
};

}  // namespace

std::unique_ptr<Normalizer> precompiled(std::string_view table) {
  return std::make_unique<Precompiled>(table);
}

}  // namespace ds
