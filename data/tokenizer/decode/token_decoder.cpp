#include "data/tokenizer/decode/token_decoder.h"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "data/text/text_kind.h"
#include "data/tokenizer/normalize/normalizer.h"
#include "data/tokenizer/text/byte_letters.h"

namespace ds {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  size_t at = from.empty() ? std::string::npos : text.find(from);
  if (at == std::string::npos) return;
  std::string out;
  size_t rest = 0;
  for (; at != std::string::npos; at = text.find(from, rest)) {
    out.append(text, rest, at - rest);
    out += to;
    rest = at + from.size();
  }
  out.append(text, rest);
  text = std::move(out);
}

// One whole text in the place of all tokens.
void join(std::vector<std::string>& tokens, std::string_view between) {
  std::string text;
  for (const std::string& token : tokens) {
    if (&token != tokens.data()) text += between;
    text += token;
  }
  tokens.clear();
  tokens.push_back(std::move(text));
}

class DecodeByteLetters final : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens, PatternWork&) const override {
    for (std::string& token : tokens) {
      if (auto bytes = from_byte_letters(token)) token = std::move(*bytes);
    }
    join(tokens, "");
  }
};

class DecodeSpaceSign final : public TokenDecoder {
 public:
  DecodeSpaceSign(std::string sign, bool drops_first)
      : sign_(std::move(sign)), drops_first_(drops_first) {}
  void apply(std::vector<std::string>& tokens, PatternWork&) const override {
    for (std::string& token : tokens)
      replace_all(token, sign_, drops_first_ && &token == tokens.data() ? "" : " ");
  }

 private:
  std::string sign_;
  bool drops_first_;
};

// The byte of "<0x0A>".
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

class DecodeByteTokens final : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens, PatternWork&) const override {
    std::vector<std::string> out;
    std::string run;
    const auto end_run = [&](bool is_last) {
      if (run.empty()) return;
      const std::string_view whole = is_last ? whole_characters(run) : std::string_view(run);
      if (first_invalid_utf8(whole) == std::string_view::npos) {
        out.push_back(run);
      } else {
        for (size_t i = 0; i < run.size(); ++i) out.emplace_back("\uFFFD");
      }
      run.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = byte_of(token)) {
        run.push_back(*byte);
        continue;
      }
      end_run(false);
      out.push_back(std::move(token));
    }
    end_run(true);
    tokens = std::move(out);
  }
};

class DecodeSentencePieces final : public TokenDecoder {
 public:
  explicit DecodeSentencePieces(SentencePieceDecoding how) : how_(std::move(how)) {}

  void apply(std::vector<std::string>& tokens, PatternWork& work) const override {
    std::string text, run;
    bool strips = how_.strip != SentencePieceDecoding::Strip::kNone;
    for (std::string& token : tokens) {
      if (const auto byte = how_.bytes ? byte_of(token) : std::nullopt) {
        run.push_back(*byte);
        continue;
      }
      append_bytes(std::exchange(run, {}), text);
      strips = strips && text.empty();
      if (token == how_.unknown) {
        work.write(how_.unknown_surface.size());
        text += how_.unknown_surface;
        continue;
      }
      if (strips && token.starts_with(kSpaceSign)) {
        token.erase(0, kSpaceSign.size());
        strips = how_.strip == SentencePieceDecoding::Strip::kAll;
      }
      replace_all(token, kSpaceSign, " ");
      text += token;
    }
    const std::string_view whole = whole_characters(run);
    append_bytes(whole, text);
    text += run.substr(whole.size());
    tokens.clear();
    tokens.push_back(std::move(text));
  }

 private:
  static constexpr std::string_view kSpaceSign = "\u2581";

  static void append_bytes(std::string_view run, std::string& text) {
    for (size_t at = first_invalid_utf8(run); at != std::string_view::npos;
         at = first_invalid_utf8(run)) {
      text += run.substr(0, at);
      text += "\uFFFD";
      run.remove_prefix(at + 1);
    }
    text += run;
  }

  SentencePieceDecoding how_;
};

class JoinTokens final : public TokenDecoder {
 public:
  explicit JoinTokens(std::string_view between) : between_(between) {}
  void apply(std::vector<std::string>& tokens, PatternWork&) const override {
    join(tokens, between_);
  }

 private:
  std::string_view between_;
};

class DecodeStrip final : public TokenDecoder {
 public:
  DecodeStrip(std::string character, size_t left, size_t right)
      : character_(std::move(character)), left_(left), right_(right) {}
  void apply(std::vector<std::string>& tokens, PatternWork&) const override {
    for (std::string& token : tokens) {
      size_t begin = 0, end = token.size();
      const size_t one = character_.size();
      for (size_t i = 0; i < left_ && token.compare(begin, one, character_) == 0; ++i) begin += one;
      for (size_t i = 0; i < right_ && end >= begin + one; ++i) {
        if (token.compare(end - one, one, character_) != 0) break;
        end -= one;
      }
      token = token.substr(begin, end - begin);
    }
  }

 private:
  std::string character_;
  size_t left_, right_;
};

class DecodeReplace final : public TokenDecoder {
 public:
  DecodeReplace(std::shared_ptr<const Pattern> pattern, std::string content)
      : replace_(replace(std::move(pattern), std::move(content))) {}
  void apply(std::vector<std::string>& tokens, PatternWork& work) const override {
    size_t before = tokens.size(), after = 0;
    for (const std::string& token : tokens) before += token.size();
    for (std::string& token : tokens) {
      if (first_invalid_utf8(token) != std::string::npos) token = as_utf8(token);
      token = replace_->apply(token, work);
      work.write(token.size());
      require_sane_growth(after += token.size(), before);
    }
  }

 private:
  std::unique_ptr<Normalizer> replace_;
};

struct Rewriting {
  std::string_view from, to;
};
// What BERT's release does to English after a space was put before every word.
constexpr std::array kCleanup{
    Rewriting{" .", "."},     Rewriting{" ?", "?"},           Rewriting{" !", "!"},
    Rewriting{" ,", ","},     Rewriting{" ' ", "'"},          Rewriting{" n't", "n't"},
    Rewriting{" 'm", "'m"},   Rewriting{" do not", " don't"}, Rewriting{" 's", "'s"},
    Rewriting{" 've", "'ve"}, Rewriting{" 're", "'re"}};

class DecodeWordPiece final : public TokenDecoder {
 public:
  DecodeWordPiece(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>& tokens, PatternWork&) const override {
    for (std::string& token : tokens) {
      if (&token != tokens.data()) {
        if (token.starts_with(prefix_)) {
          token.erase(0, prefix_.size());
        } else {
          token.insert(token.begin(), ' ');
        }
      }
      if (!cleanup_) continue;
      for (const Rewriting& rewriting : kCleanup) replace_all(token, rewriting.from, rewriting.to);
    }
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

class DecodeSuffix final : public TokenDecoder {
 public:
  explicit DecodeSuffix(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& tokens, PatternWork&) const override {
    for (std::string& token : tokens)
      replace_all(token, suffix_, &token == &tokens.back() ? "" : " ");
  }

 private:
  std::string suffix_;
};

}  // namespace

std::unique_ptr<TokenDecoder> decode_byte_letters() {
  return std::make_unique<DecodeByteLetters>();
}
std::unique_ptr<TokenDecoder> decode_space_sign(std::string sign, bool drops_first) {
  return std::make_unique<DecodeSpaceSign>(std::move(sign), drops_first);
}
std::unique_ptr<TokenDecoder> decode_byte_tokens() { return std::make_unique<DecodeByteTokens>(); }
std::unique_ptr<TokenDecoder> join_tokens() { return std::make_unique<JoinTokens>(""); }
std::unique_ptr<TokenDecoder> join_with_spaces() { return std::make_unique<JoinTokens>(" "); }
std::unique_ptr<TokenDecoder> decode_strip(std::string character, size_t left, size_t right) {
  return std::make_unique<DecodeStrip>(std::move(character), left, right);
}
std::unique_ptr<TokenDecoder> decode_replace(std::shared_ptr<const Pattern> pattern,
                                             std::string content) {
  return std::make_unique<DecodeReplace>(std::move(pattern), std::move(content));
}
std::unique_ptr<TokenDecoder> decode_word_piece(std::string prefix, bool cleanup) {
  return std::make_unique<DecodeWordPiece>(std::move(prefix), cleanup);
}
std::unique_ptr<TokenDecoder> decode_suffix(std::string suffix) {
  return std::make_unique<DecodeSuffix>(std::move(suffix));
}
std::unique_ptr<TokenDecoder> decode_sentence_pieces(SentencePieceDecoding how) {
  return std::make_unique<DecodeSentencePieces>(std::move(how));
}

}  // namespace ds
