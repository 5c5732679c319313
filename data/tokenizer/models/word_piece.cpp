#include <fmt/format.h>

#include "core/status/error.h"
#include "data/text/text_kind.h"
#include "data/tokenizer/models/token_tree.h"

namespace ds {

std::optional<int32_t> find_token(const Vocabulary& vocabulary, std::string_view token) {
  const auto found = vocabulary.find(token);
  return found == vocabulary.end() ? std::nullopt : std::optional(found->second);
}

ByteTokens::ByteTokens(const Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte)
    ids_.push_back(find_token(vocabulary, fmt::format("<0x{:02X}>", byte)).value_or(-1));
}

bool ByteTokens::append(std::string_view bytes, std::vector<int32_t>& out) const {
  if (ids_.empty()) return false;
  const size_t before = out.size();
  for (const char byte : bytes) {
    const int32_t id = ids_[static_cast<unsigned char>(byte)];
    if (id < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(id);
  }
  return true;
}

namespace {

int32_t require_unknown(const Vocabulary& vocabulary, const std::string& unknown,
                        std::string_view piece) {
  if (const auto id = find_token(vocabulary, unknown)) return *id;
  throw DataError(
      fmt::format("tokenizer: '{}' is no token, and neither is \"{}\", which would stand for it",
                  piece.substr(0, 64), unknown));
}

class WordPiece final : public PieceEncoder {
 public:
  WordPiece(Vocabulary vocabulary, WordPieceForm form)
      : vocabulary_(std::move(vocabulary)), form_(std::move(form)), first_(vocabulary_) {
    Vocabulary further;
    for (const auto& [token, id] : vocabulary_) {
      if (token.starts_with(form_.prefix)) further.emplace(token.substr(form_.prefix.size()), id);
    }
    further_ = TokenTree(further);
  }

  void encode(std::string_view piece, std::vector<int32_t>& out) const override {
    const size_t before = out.size();
    bool whole = !is_too_long(piece);
    for (size_t begin = 0; whole && begin < piece.size();) {
      const TokenTree::Match token = (begin > 0 ? further_ : first_).longest(piece.substr(begin));
      whole = token.bytes > 0;
      begin += token.bytes;
      if (whole) out.push_back(token.id);
    }
    if (whole) return;
    out.resize(before);
    out.push_back(require_unknown(vocabulary_, form_.unknown, piece));
  }

 private:
  bool is_too_long(std::string_view piece) const {
    size_t characters = 0;
    for (const char c : piece) characters += is_continuation(c) ? 0 : 1;
    return characters > form_.longest;
  }

  Vocabulary vocabulary_;
  WordPieceForm form_;
  TokenTree first_, further_;  // what a piece begins with, and what goes on, without its prefix
};

class WordLevel final : public PieceEncoder {
 public:
  WordLevel(Vocabulary vocabulary, std::string unknown)
      : vocabulary_(std::move(vocabulary)), unknown_(std::move(unknown)) {}

  void encode(std::string_view piece, std::vector<int32_t>& out) const override {
    const auto id = find_token(vocabulary_, piece);
    out.push_back(id ? *id : require_unknown(vocabulary_, unknown_, piece));
  }

 private:
  Vocabulary vocabulary_;
  std::string unknown_;
};

}  // namespace

std::unique_ptr<PieceEncoder> word_piece(Vocabulary vocabulary, WordPieceForm form) {
  return std::make_unique<WordPiece>(std::move(vocabulary), std::move(form));
}

std::unique_ptr<PieceEncoder> word_level(Vocabulary vocabulary, std::string unknown) {
  return std::make_unique<WordLevel>(std::move(vocabulary), std::move(unknown));
}

}  // namespace ds
