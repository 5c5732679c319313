#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/tokenizer/models/piece_encoder.h"
#include "data/tokenizer/models/token_tree.h"
#include "data/tokenizer/text/unicode.h"

namespace ds {
namespace {

constexpr double kUnknownPenalty = 10;

class Unigram final : public PieceEncoder {
 public:
  Unigram(const std::vector<ScoredToken>& tokens, UnigramForm form) : form_(form) {
    double least = std::numeric_limits<double>::max();
    for (int32_t id = 0; const ScoredToken& token : tokens) {
      if (!token.token.empty()) ids_[token.token] = id;
      scores_.push_back(token.score);
      least = std::min(least, token.score);
      ++id;
    }
    unknown_score_ = least - kUnknownPenalty;
    tree_ = TokenTree(ids_);
    if (form.byte_fallback) bytes_ = ByteTokens(ids_);
  }

  void encode(std::string_view piece, std::vector<int32_t>& out) const override {
    const std::vector<Step> best = best_steps(piece);
    std::vector<std::string_view> cut;  // from the end to the beginning
    bool was_unknown = false;
    for (size_t end = piece.size(); end > 0;) {
      const Step& step = best[end];
      const bool unknown = form_.unknown && step.id == *form_.unknown;
      const std::string_view part = piece.substr(step.begin, end - step.begin);
      if (unknown && was_unknown) {  // joined with what follows it
        cut.back() = piece.substr(step.begin, part.size() + cut.back().size());
      } else {
        cut.push_back(part);
      }
      was_unknown = unknown;
      end = step.begin;
    }
    std::ranges::reverse(cut);
    for (const std::string_view part : cut) append(part, out);
  }

 private:
  static constexpr size_t kNowhere = std::string_view::npos;
  struct Step {
    double score = 0;
    size_t begin = kNowhere;
    int32_t id = -1;
  };

  // The best last token of every beginning of the piece, by where that ends.
  std::vector<Step> best_steps(std::string_view piece) const {
    std::vector<Step> best(piece.size() + 1);
    for (size_t begin = 0; begin < piece.size();) {
      const double so_far = best[begin].score;
      const size_t character = first_character(piece.substr(begin)).length;
      bool is_token = false;
      const auto offer = [&](size_t length, int32_t id, double score) {
        Step& step = best[begin + length];
        if (step.begin == kNowhere || so_far + score > step.score)
          step = {so_far + score, begin, id};
      };
      tree_.for_each_prefix(piece.substr(begin), [&](size_t length, int32_t id) {
        offer(length, id, nth(scores_, id));
        is_token = is_token || length == character;
      });
      if (!is_token) offer(character, require_unknown(piece), unknown_score_);
      begin += character;
    }
    return best;
  }

  int32_t require_unknown(std::string_view piece) const {
    if (form_.unknown) return *form_.unknown;
    throw DataError(
        fmt::format("tokenizer: no tokens make '{}', and model.unk_id names none that "
                    "stands for what has no token",
                    piece.substr(0, 64)));
  }

  void append(std::string_view part, std::vector<int32_t>& out) const {
    if (const auto id = find_token(ids_, part)) {
      out.push_back(*id);
    } else if (!bytes_.append(part, out)) {
      out.push_back(require_unknown(part));
    }
  }

  UnigramForm form_;
  Vocabulary ids_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  TokenTree tree_;
  ByteTokens bytes_;
};

}  // namespace

std::unique_ptr<PieceEncoder> unigram(const std::vector<ScoredToken>& tokens, UnigramForm form) {
  return std::make_unique<Unigram>(tokens, form);
}

}  // namespace ds
