#include <algorithm>
#include <array>

#include "data/tokenizer/normalize/normalizer.h"

namespace ds {
namespace {

struct Range {
  char32_t first, last;
};
// The blocks that BERT's release calls Chinese characters.
constexpr std::array kChinese{Range{0x4e00, 0x9fff},   Range{0x3400, 0x4dbf},
                              Range{0x20000, 0x2a6df}, Range{0x2a700, 0x2b73f},
                              Range{0x2b740, 0x2b81f}, Range{0x2b920, 0x2ceaf},
                              Range{0xf900, 0xfaff},   Range{0x2f800, 0x2fa1f}};

bool is_chinese(char32_t c) {
  return std::ranges::any_of(kChinese, [c](Range r) { return c >= r.first && c <= r.last; });
}

bool is_line_sign(char32_t c) { return c == '\t' || c == '\n' || c == '\r'; }

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(BertNormalizing parts) : parts_(parts) {}

  std::string apply(std::string_view text, PatternWork&) const override {
    std::string out;
    out.reserve(text.size());
    unicode::for_each_character(text, [&](char32_t c, size_t at, size_t bytes) {
      add_clean(c, text.substr(at, bytes), out);
    });
    if (parts_.strip_accents) out = without_accents(out);
    if (!parts_.lowercase) return out;
    std::string small;
    small.reserve(out.size());
    unicode::for_each_character(
        out, [&](char32_t c, size_t, size_t) { unicode::append_lower(c, small); });
    return small;
  }
  bool may_be_cut(CutPlaces::Kind) const override { return true; }

 private:
  void add_clean(char32_t c, std::string_view written, std::string& out) const {
    if (parts_.clean_text) {
      if (c == 0 || c == 0xfffd || (unicode::is_other(c) && !is_line_sign(c))) return;
      if (unicode::is_white_space(c)) written = " ";
    }
    if (parts_.handle_chinese_chars && is_chinese(c)) {
      out += ' ';
      out += written;
      out += ' ';
    } else {
      out += written;
    }
  }

  static std::string without_accents(std::string_view text) {
    const std::string apart = unicode::normalized(text, unicode::Form::kNfd);
    std::string out;
    out.reserve(apart.size());
    unicode::for_each_character(apart, [&](char32_t c, size_t at, size_t bytes) {
      if (!unicode::is_nonspacing_mark(c)) out += std::string_view(apart).substr(at, bytes);
    });
    return out;
  }

  BertNormalizing parts_;
};

}  // namespace

std::unique_ptr<Normalizer> bert_normalizer(BertNormalizing parts) {
  return std::make_unique<BertNormalizer>(parts);
}

}  // namespace ds
