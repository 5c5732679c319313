#include "data/tokenizer/models/sentence_piece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <queue>

#include "core/status/error.h"
#include "core/text/utf8.h"
#include "core/values/index.h"
#include "data/tokenizer/models/token_tree.h"

namespace ds {
namespace {

using Kind = SentencePieces::Kind;

// No piece of a model that was trained is longer than some characters, and what a longer one costs
// has to have a bound.
constexpr size_t kLongestPiece = 1024;  // bytes

// The pieces of a model, sorted by what may become of them.
struct PieceTables {
  std::vector<float> scores;
  std::vector<Kind> kinds;
  Vocabulary reserved;  // unknown, control and byte pieces: no text is cut into them
  Vocabulary pieces;    // the others
  TokenTree user_defined;
  ByteTokens bytes;  // none without `byte_fallback`
  int32_t unknown = -1;

  bool is_unused(int32_t id) const { return nth(kinds, id) == Kind::kUnused; }
  int32_t id_of(std::string_view text) const {
    if (const auto id = find_token(reserved, text)) return *id;
    return find_token(pieces, text).value_or(unknown);
  }
  // The bytes of the character, or of the piece of a user's own, that the text begins with.
  size_t unit(std::string_view text) const {
    const size_t longest = user_defined.longest_prefix(text);
    return longest > 0 ? longest : first_character(text).length;
  }
};

void check_piece(const SentencePieces::Piece& piece, size_t id) {
  const auto refuse = [&](const char* defect) {
    throw DataError(fmt::format("piece {} {}", id, defect));
  };
  if (piece.text.empty()) refuse("is empty");
  if (piece.text.size() > kLongestPiece) refuse("is longer than 1024 bytes");
  if (piece.text.find('\0') != std::string::npos) refuse("has a zero byte");
  if (first_invalid_utf8(piece.text) != std::string::npos) refuse("is no UTF-8");
  if (!std::isfinite(piece.score)) refuse("has a score that is no finite number");
}

PieceTables tables_of(const SentencePieces& model) {
  PieceTables out;
  Vocabulary own;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePieces::Piece& piece = model.pieces[i];
    check_piece(piece, i);
    const auto id = narrow<int32_t>(std::ssize(out.kinds));
    const bool is_text = piece.kind == Kind::kNormal || piece.kind == Kind::kUserDefined ||
                         piece.kind == Kind::kUnused;
    if (!(is_text ? out.pieces : out.reserved).emplace(piece.text, id).second)
      throw DataError(fmt::format("piece {} is '{}', as one before it is", i, piece.text));
    if (piece.kind == Kind::kByte && !model.byte_fallback)
      throw DataError(fmt::format("piece {} is a byte, and byte_fallback is not set", i));
    if (piece.kind == Kind::kUserDefined) own.emplace(piece.text, id);
    if (piece.kind == Kind::kUnknown) {
      if (out.unknown >= 0)
        throw DataError(fmt::format("piece {} is unknown, as {} is", id, out.unknown));
      out.unknown = id;
    }
    out.scores.push_back(piece.score);
    out.kinds.push_back(piece.kind);
  }
  if (out.unknown < 0) throw DataError("none of its pieces is the unknown one");
  out.user_defined = TokenTree(own);
  if (!model.byte_fallback) return out;
  out.bytes = ByteTokens(out.reserved);
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte.push_back(static_cast<char>(byte));
  std::vector<int32_t> ids;
  if (!out.bytes.append(every_byte, ids))
    throw DataError("byte_fallback is set, and pieces of some bytes are missing");
  return out;
}

// What the algorithms share: an unknown part of a text becomes its bytes, or is joined with the
// unknown parts beside it.
class SentencePieceEncoder : public PieceEncoder {
 public:
  explicit SentencePieceEncoder(const SentencePieces& model) : tables_(tables_of(model)) {}

  void encode(std::string_view text, std::vector<int32_t>& out) const final {
    bool was_unknown = false;
    for (const Part& part : cut(text)) {
      const bool is_unknown = part.id == tables_.unknown;
      if (is_unknown && tables_.bytes.append(part.text, out)) continue;
      if (!is_unknown || !was_unknown) out.push_back(part.id);
      was_unknown = is_unknown;
    }
  }

 protected:
  struct Part {
    std::string_view text;
    int32_t id;
  };
  virtual std::vector<Part> cut(std::string_view text) const = 0;
  const PieceTables& tables() const { return tables_; }

 private:
  PieceTables tables_;
};

// Cuts units off the beginning of the text, each by itself.
class Units : public SentencePieceEncoder {
 public:
  using SentencePieceEncoder::SentencePieceEncoder;

 private:
  std::vector<Part> cut(std::string_view text) const final {
    std::vector<Part> out;
    while (!text.empty()) {
      const std::string_view unit = text.substr(0, unit_bytes(text));
      out.push_back({unit, tables().id_of(unit)});
      text.remove_prefix(unit.size());
    }
    return out;
  }
  // The bytes of the first unit; beyond the text: all of it.
  virtual size_t unit_bytes(std::string_view text) const = 0;
};

class Characters final : public Units {
 public:
  using Units::Units;

 private:
  size_t unit_bytes(std::string_view text) const override { return tables().unit(text); }
};

// A word begins with each sign of a space.
class Words final : public Units {
 public:
  using Units::Units;

 private:
  size_t unit_bytes(std::string_view text) const override { return text.find("\u2581", 1); }
};

// Again and again joins the two neighbours whose union has the best score, leftmost first. Unused
// pieces are joined on the way, and taken apart again at the end.
class Pairs final : public SentencePieceEncoder {
 public:
  using SentencePieceEncoder::SentencePieceEncoder;

 private:
  static constexpr int32_t kNone = -1;
  struct Symbol {
    std::string_view text;  // empty: it is part of one before it
    int32_t previous, next;
    bool is_fixed;
  };
  struct Candidate {
    float score;
    int32_t left, right;
    size_t bytes;
    bool operator<(const Candidate& other) const {  // priority_queue takes the largest
      return score != other.score ? score < other.score : left > other.left;
    }
  };
  // How many bytes of an unused piece its left part has.
  using Halves = std::unordered_map<std::string_view, size_t>;
  struct Work {
    std::vector<Symbol> symbols;
    std::priority_queue<Candidate> queue;
    Halves halves;
  };

  std::vector<Part> cut(std::string_view text) const override {
    Work work;
    work.symbols = symbols_of(text);
    const auto count = narrow<int32_t>(std::ssize(work.symbols));
    for (int32_t i = 1; i < count; ++i) consider(i - 1, i, work);
    while (!work.queue.empty()) {
      const Candidate best = work.queue.top();
      work.queue.pop();
      Symbol& left = nth(work.symbols, best.left);
      Symbol& right = nth(work.symbols, best.right);
      if (left.text.empty() || right.text.empty() ||
          left.text.size() + right.text.size() != best.bytes) {
        continue;
      }
      left.text = {left.text.data(), best.bytes};
      left.next = right.next;
      if (right.next != kNone) nth(work.symbols, right.next).previous = best.left;
      right.text = {};
      consider(left.previous, best.left, work);
      consider(best.left, left.next, work);
    }
    std::vector<Part> out;
    for (int32_t i = count > 0 ? 0 : kNone; i != kNone; i = nth(work.symbols, i).next)
      take_apart(nth(work.symbols, i).text, work.halves, out);
    return out;
  }

  std::vector<Symbol> symbols_of(std::string_view text) const {
    std::vector<Symbol> out;
    while (!text.empty()) {
      const size_t own = tables().user_defined.longest_prefix(text);
      const std::string_view unit = text.substr(0, own > 0 ? own : first_character(text).length);
      text.remove_prefix(unit.size());
      const auto at = narrow<int32_t>(std::ssize(out));
      out.push_back({unit, at - 1, text.empty() ? kNone : at + 1, own > 0});
    }
    return out;
  }

  void consider(int32_t left, int32_t right, Work& work) const {
    if (left == kNone || right == kNone) return;
    const Symbol& a = nth(work.symbols, left);
    const Symbol& b = nth(work.symbols, right);
    if (a.is_fixed || b.is_fixed) return;
    const std::string_view both(a.text.data(), a.text.size() + b.text.size());
    const auto id = find_token(tables().pieces, both);
    if (!id) return;
    work.queue.push({nth(tables().scores, *id), left, right, both.size()});
    if (tables().is_unused(*id)) work.halves[both] = a.text.size();
  }

  void take_apart(std::string_view text, const Halves& halves, std::vector<Part>& out) const {
    std::vector<std::string_view> left{text};
    while (!left.empty()) {
      const std::string_view next = left.back();
      left.pop_back();
      const int32_t id = tables().id_of(next);
      const auto half = tables().is_unused(id) ? halves.find(next) : halves.end();
      if (half == halves.end()) {
        out.push_back({next, id});
        continue;
      }
      left.push_back(next.substr(half->second));
      left.push_back(next.substr(0, half->second));
    }
  }
};

// Takes the cut whose scores have the largest sum (Viterbi's algorithm), in numbers of 32
// bits, as the reference adds them up.
class BestCut final : public SentencePieceEncoder {
 public:
  explicit BestCut(const SentencePieces& model) : SentencePieceEncoder(model) {
    float least = FLT_MAX;
    for (const SentencePieces::Piece& piece : model.pieces) {
      if (piece.kind != Kind::kNormal) continue;
      least = std::min(least, piece.score);
      largest_ = std::max(largest_, piece.score);
    }
    unknown_score_ = least - 10;
    if (tables().pieces.empty()) throw DataError("it has no pieces that texts are cut into");
    tree_ = TokenTree(tables().pieces);
  }

 private:
  static constexpr int64_t kNowhere = -1;
  struct Step {
    int64_t begin = kNowhere;
    float score = 0;
    int32_t id = -1;
  };

  std::vector<Part> cut(std::string_view text) const override {
    const std::vector<Step> best = best_steps(text);
    std::vector<Part> out;
    for (size_t end = text.size(); end > 0;) {
      const auto begin = static_cast<size_t>(best[end].begin);
      out.push_back({text.substr(begin, end - begin), best[end].id});
      end = begin;
    }
    std::ranges::reverse(out);
    return out;
  }

  // The best last piece of every beginning of the text, by where that ends.
  std::vector<Step> best_steps(std::string_view text) const {
    std::vector<Step> best(text.size() + 1);
    for (size_t begin = 0; begin < text.size();) {
      const float so_far = best[begin].score;
      const size_t character = first_character(text.substr(begin)).length;
      const auto offer = [&](size_t length, int32_t id, double score) {
        Step& step = best[begin + length];
        if (step.begin != kNowhere && !(score > static_cast<double>(step.score))) return;
        step = {static_cast<int64_t>(begin), static_cast<float>(score), id};
      };
      bool is_piece = false;
      tree_.for_each_prefix(text.substr(begin), [&](size_t length, int32_t id) {
        if (tables().is_unused(id)) return;
        offer(length, id, score_of(id, length) + static_cast<double>(so_far));
        is_piece = is_piece || length == character;
      });
      if (!is_piece)
        offer(character, tables().unknown, static_cast<double>(unknown_score_ + so_far));
      begin += character;
    }
    return best;
  }

  // A piece of the user's own costs next to nothing, so that it is always taken.
  double score_of(int32_t id, size_t length) const {
    if (nth(tables().kinds, id) != Kind::kUserDefined)
      return static_cast<double>(nth(tables().scores, id));
    return static_cast<double>(static_cast<float>(length) * largest_) - 0.1;
  }

  float largest_ = FLT_MIN, unknown_score_ = 0;
  TokenTree tree_;
};

}  // namespace

std::unique_ptr<PieceEncoder> sentence_piece(const SentencePieces& model) {
  switch (model.algorithm) {
    case SentencePieces::Algorithm::kUnigram:
      return std::make_unique<BestCut>(model);
    case SentencePieces::Algorithm::kBytePair:
      return std::make_unique<Pairs>(model);
    case SentencePieces::Algorithm::kWord:
      return std::make_unique<Words>(model);
    case SentencePieces::Algorithm::kCharacter:
      return std::make_unique<Characters>(model);
  }
  throw DataError("a model of SentencePiece of no known algorithm");
}

}  // namespace ds
