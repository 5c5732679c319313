#include "data/tokenizer/normalize/normalizer.h"

#include <algorithm>

#include "data/text/text_kind.h"
#include "data/tokenizer/text/byte_letters.h"

namespace ds {
namespace {

class UnicodeForm final : public Normalizer {
 public:
  explicit UnicodeForm(unicode::Form form) : form_(form) {}
  std::string apply(std::string_view text, PatternWork&) const override {
    return unicode::normalized(text, form_);
  }
  bool may_be_cut(CutPlaces::Kind) const override { return true; }

 private:
  unicode::Form form_;
};

class ByteLetters final : public Normalizer {
 public:
  std::string apply(std::string_view text, PatternWork&) const override {
    return to_byte_letters(text);
  }
  bool may_be_cut(CutPlaces::Kind) const override { return true; }
};

// What becomes of each character, whatever is beside it.
class ByCharacter final : public Normalizer {
 public:
  using Rule = void (*)(char32_t c, std::string_view written, std::string& out);
  explicit ByCharacter(Rule rule) : rule_(rule) {}
  std::string apply(std::string_view text, PatternWork&) const override {
    std::string out;
    out.reserve(text.size());
    unicode::for_each_character(
        text, [&](char32_t c, size_t at, size_t bytes) { rule_(c, text.substr(at, bytes), out); });
    return out;
  }
  bool may_be_cut(CutPlaces::Kind) const override { return true; }

 private:
  Rule rule_;
};

void small_letter(char32_t c, std::string_view, std::string& out) { unicode::append_lower(c, out); }

void unless_mark(char32_t c, std::string_view written, std::string& out) {
  if (!unicode::is_mark(c)) out += written;
}

void nmt_rule(char32_t c, std::string_view written, std::string& out) {
  const auto within = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  if (within(0x1, 0x8) || c == 0xb || within(0xe, 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f)
    return;
  const bool space = c == 0x9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
                     within(0x200b, 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xfeff || c == 0xfffd;
  out += space ? std::string_view(" ") : written;
}

class Strip final : public Normalizer {
 public:
  explicit Strip(StripSides sides) : sides_(sides) {}
  std::string apply(std::string_view text, PatternWork&) const override {
    if (sides_.left) text.remove_prefix(unicode::space_after(text));
    if (sides_.right) text = text.substr(0, unicode::space_before(text));
    return std::string(text);
  }
  size_t beginning(std::string_view text, size_t first, PatternWork&) const override {
    const size_t taken = sides_.left ? unicode::space_after(text) : 0;
    return first - std::min(first, taken);
  }
  bool may_be_cut(CutPlaces::Kind) const override { return false; }

 private:
  StripSides sides_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  std::string apply(std::string_view text, PatternWork&) const override {
    return text.empty() ? "" : text_ + std::string(text);
  }
  std::string apply_behind_cut(std::string_view text, PatternWork&) const override {
    return std::string(text);
  }
  bool may_be_cut(CutPlaces::Kind) const override { return true; }

 private:
  std::string text_;
};

class Replace final : public Normalizer {
 public:
  Replace(std::shared_ptr<const Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  std::string apply(std::string_view text, PatternWork& work) const override {
    std::string out;
    replace_up_to(text, text.size(), work, out);
    return out;
  }
  // What comes in the place of a match stands for the last character of it.
  size_t beginning(std::string_view text, size_t first, PatternWork& work) const override {
    std::string out;
    if (first > 0) replace_up_to(text, first, work, out);
    return out.size();
  }
  // What other regular expressions may match is not known beforehand.
  bool may_be_cut(CutPlaces::Kind) const override {
    return pattern_->is_of_spaces() || (pattern_->literal() && is_never_cut(*pattern_->literal()));
  }
  bool replaces(std::string_view text) const override {
    return text.size() == 1 && pattern_->literal() == text &&
           content_.find(text) == std::string::npos;
  }

 private:
  // Appends what stands for the first `wanted` bytes of the text.
  void replace_up_to(std::string_view text, size_t wanted, PatternWork& work,
                     std::string& out) const {
    size_t rest = 0;
    pattern_->for_each_match(text, Pattern::TextEnd::kEnd, work, [&](size_t begin, size_t end) {
      require_sane_growth(out.size() + content_.size(), text.size());
      if (end > wanted) {  // a match that reaches beyond it stands for what is there
        wanted = std::min(wanted, begin);
        return false;
      }
      out += text.substr(rest, begin - rest);
      out += content_;
      rest = end;
      return true;
    });
    out += text.substr(rest, wanted - rest);
  }

  std::shared_ptr<const Pattern> pattern_;
  std::string content_;
};

std::string apply_to(PartOfText part, const Normalizer& normalizer, std::string_view text,
                     PatternWork& work) {
  switch (part) {
    case PartOfText::kBeginning:
      return normalizer.apply(text, work);
    case PartOfText::kFurtherOn:
      return normalizer.apply_further_on(text, work);
    case PartOfText::kBehindCut:
      break;
  }
  return normalizer.apply_behind_cut(text, work);
}

}  // namespace

std::string normalize(const Normalizers& normalizers, std::string_view text, PatternWork& work,
                      PartOfText part) {
  std::string out(text);
  for (const auto& normalizer : normalizers) {
    out = apply_to(part, *normalizer, out, work);
    work.write(out.size());
    require_sane_growth(out.size(), text.size());
  }
  return out;
}

NormalizedText normalize_with_beginning(const Normalizers& normalizers, std::string_view text,
                                        PatternWork& work) {
  NormalizedText out{std::string(text), first_character(text).length};
  for (const auto& normalizer : normalizers) {
    const size_t beginning = normalizer->beginning(out.text, out.beginning, work);
    out.text = normalizer->apply(out.text, work);
    work.write(out.text.size());
    require_sane_growth(out.text.size(), text.size());
    out.beginning = std::min(beginning, out.text.size());
    while (out.beginning < out.text.size() && is_continuation(out.text[out.beginning]))
      ++out.beginning;
  }
  return out;
}

std::unique_ptr<Normalizer> unicode_form(unicode::Form form) {
  return std::make_unique<UnicodeForm>(form);
}
std::unique_ptr<Normalizer> lowercase() { return std::make_unique<ByCharacter>(&small_letter); }
std::unique_ptr<Normalizer> strip_accents() { return std::make_unique<ByCharacter>(&unless_mark); }
std::unique_ptr<Normalizer> byte_letters() { return std::make_unique<ByteLetters>(); }
std::unique_ptr<Normalizer> nmt() { return std::make_unique<ByCharacter>(&nmt_rule); }
std::unique_ptr<Normalizer> strip(StripSides sides) { return std::make_unique<Strip>(sides); }
std::unique_ptr<Normalizer> prepend(std::string text) {
  return std::make_unique<Prepend>(std::move(text));
}
std::unique_ptr<Normalizer> replace(std::shared_ptr<const Pattern> pattern, std::string content) {
  return std::make_unique<Replace>(std::move(pattern), std::move(content));
}

}  // namespace ds
