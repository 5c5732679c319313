#include "data/tokenizer/normalize/sentence_piece_normalizer.h"

#include <algorithm>
#include <optional>

#include "data/tokenizer/models/token_tree.h"
#include "data/tokenizer/normalize/replacement_table.h"

namespace ds {
namespace {

using Prefix = SentencePieceNormalizing::Prefix;

constexpr std::string_view kSign = "\u2581";

class SentencePieceNormalizer final : public Normalizer {
 public:
  explicit SentencePieceNormalizer(const SentencePieceNormalizing& how)
      : how_(how), sign_(how.escape_whitespaces ? kSign : " ") {
    if (!how_.table.empty()) table_.emplace(how_.table);
    Vocabulary kept;
    for (const std::string& text : how_.kept) kept.emplace(text, 0);
    kept_ = TokenTree(kept);
  }

  std::string apply(std::string_view text, PatternWork&) const override {
    return normalized(text, how_.prefix != Prefix::kNone);
  }
  std::string apply_further_on(std::string_view text, PatternWork&) const override {
    return normalized(text, how_.prefix == Prefix::kEveryPart);
  }
  // Its table may replace any characters, and whole texts are pieces.
  bool may_be_cut(CutPlaces::Kind) const override { return false; }

 private:
  struct Step {
    std::string_view replacement;
    size_t bytes;
  };
  Step next(std::string_view text) const {
    if (const size_t kept = kept_.longest_prefix(text); kept > 0)
      return {text.substr(0, kept), kept};
    if (table_) {
      if (const auto match = table_->longest(text)) return {match->replacement, match->bytes};
    }
    const size_t bytes = first_character(text).length;
    return {text.substr(0, bytes), bytes};
  }

  std::string normalized(std::string_view text, bool with_sign) const {
    const bool fewer = how_.remove_extra_whitespaces;
    const size_t bytes = text.size();
    while (fewer && !text.empty()) {
      const Step step = next(text);
      if (step.replacement != " ") break;
      text.remove_prefix(step.bytes);
    }
    std::string out;
    if (text.empty()) return out;
    if (with_sign && !how_.whitespace_as_suffix) out += sign_;
    for (bool after_space = fewer; !text.empty();) {
      require_sane_growth(out.size(), bytes);
      Step step = next(text);
      text.remove_prefix(step.bytes);
      if (after_space) step.replacement.remove_prefix(spaces_before(step.replacement));
      if (step.replacement.empty()) continue;
      append(step.replacement, out);
      after_space = fewer && step.replacement.ends_with(' ');
    }
    while (fewer && out.ends_with(sign_)) out.resize(out.size() - sign_.size());
    if (with_sign && how_.whitespace_as_suffix) out += sign_;
    return out;
  }

  static size_t spaces_before(std::string_view text) {
    return std::min(text.find_first_not_of(' '), text.size());
  }

  void append(std::string_view text, std::string& out) const {
    for (const char c : text) {
      if (c == ' ') {
        out += sign_;
      } else {
        out.push_back(c);
      }
    }
  }

  SentencePieceNormalizing how_;
  TokenTree kept_;
  std::string_view sign_;
  std::optional<ReplacementTable> table_;
};

}  // namespace

std::unique_ptr<Normalizer> sentence_piece_normalizer(const SentencePieceNormalizing& how) {
  return std::make_unique<SentencePieceNormalizer>(how);
}

}  // namespace ds
