#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/tokenizer/models/piece_encoder.h"
#include "data/tokenizer/text/unicode.h"

namespace ds {
namespace {

constexpr double kUnknownPenalty = 10;

// The tokens as a tree of their bytes: what a text begins with is found in one walk.
class TokenTree {
 public:
  void build(const std::vector<ScoredToken>& tokens, const Vocabulary& ids) {
    std::vector<std::string_view> sorted;
    sorted.reserve(tokens.size());
    for (const ScoredToken& token : tokens) sorted.push_back(token.token);
    std::ranges::sort(sorted);
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    nodes_.assign(1, {});
    // Breadth first, so that the children of a node lie beside each other.
    struct Open {
      size_t node, begin, end, depth;
    };
    std::vector<Open> open{{0, 0, sorted.size(), 0}};
    for (size_t next = 0; next < open.size(); ++next) {
      auto [node, begin, end, depth] = open[next];
      if (begin < end && sorted[begin].size() == depth) {
        nodes_[node].id = ids.find(sorted[begin])->second;
        ++begin;
      }
      nodes_[node].first_child = narrow<int32_t>(std::ssize(nodes_));
      while (begin < end) {
        const char byte = sorted[begin][depth];
        size_t same = begin;
        while (same < end && sorted[same][depth] == byte) ++same;
        open.push_back({nodes_.size(), begin, same, depth + 1});
        nodes_.push_back({.byte = static_cast<unsigned char>(byte)});
        ++nodes_[node].children;
        begin = same;
      }
    }
  }

  // Calls `on_token` with the length and the id of each token that the text begins with.
  template <class OnToken>
  void for_each_prefix(std::string_view text, const OnToken& on_token) const {
    const Node* node = nodes_.data();
    for (size_t length = 0; length < text.size();) {
      node = child(*node, static_cast<unsigned char>(text[length]));
      if (node == nullptr) return;
      ++length;
      if (node->id >= 0) on_token(length, node->id);
    }
  }

 private:
  struct Node {
    int32_t first_child = 0;
    int32_t id = -1;  // the token that ends here
    uint16_t children = 0;
    unsigned char byte = 0;
  };
  const Node* child(const Node& node, unsigned char byte) const {
    const Node* first = nodes_.data() + node.first_child;
    const Node* last = first + node.children;
    const Node* found =
        std::partition_point(first, last, [byte](const Node& n) { return n.byte < byte; });
    return found != last && found->byte == byte ? found : nullptr;
  }

  std::vector<Node> nodes_;
};

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
    std::vector<ScoredToken> written;
    for (const ScoredToken& token : tokens) {
      if (!token.token.empty()) written.push_back(token);
    }
    tree_.build(written, ids_);
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
