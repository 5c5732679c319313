#include "data/tokenizer/split/pre_tokenizer.h"

#include <algorithm>

#include "data/tokenizer/text/byte_letters.h"

namespace ds {
namespace {

using Behavior = PreTokenizerStep::Behavior;

class PrefixSpace final : public PieceRewrite {
 public:
  std::optional<std::string> apply(std::string_view piece, bool) const override {
    if (piece.starts_with(' ')) return std::nullopt;
    return " " + std::string(piece);
  }
};

class ByteLettersOfPieces final : public PieceRewrite {
 public:
  std::optional<std::string> apply(std::string_view piece, bool) const override {
    return to_byte_letters(piece);
  }
};

class SpaceSign final : public PieceRewrite {
 public:
  SpaceSign(std::string sign, PrependScheme scheme) : sign_(std::move(sign)), scheme_(scheme) {}

  std::optional<std::string> apply(std::string_view piece, bool begins) const override {
    std::string out;
    for (const char c : piece) {
      if (c == ' ') {
        out += sign_;
      } else {
        out.push_back(c);
      }
    }
    const bool wanted =
        scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && begins);
    if (wanted && !out.starts_with(sign_)) out.insert(0, sign_);
    return out;
  }
  bool asks_for_beginnings() const override { return scheme_ == PrependScheme::kFirst; }
  // A part that begins with a space begins with the sign by itself.
  bool may_be_cut(CutPlaces::Kind places) const override {
    return scheme_ != PrependScheme::kAlways || places == CutPlaces::Kind::kBeforeSpaces;
  }

 private:
  std::string sign_;
  PrependScheme scheme_;
};

bool streams(const PreTokenizerStep& step) {
  return step.behavior == Behavior::kIsolated || step.behavior == Behavior::kRemoved ||
         step.behavior == Behavior::kOnly ||
         (step.behavior == Behavior::kMergedWithNext && !step.invert);
}

// Cuts where the matches begin and end, as they are found, or only where they begin if they are
// merged with what follows. Says how much of the piece was cut.
size_t cut_at_matches(const PreTokenizerStep& step, std::string_view piece, const TextPart& part,
                      PatternWork& work, std::vector<std::string_view>& out) {
  size_t rest = 0;
  const auto keep_between = [&](size_t end) {
    if (end > rest && step.behavior != Behavior::kOnly)
      out.push_back(piece.substr(rest, end - rest));
    rest = end;
  };
  const auto text_end = part.goes_on ? Pattern::TextEnd::kGoesOn : Pattern::TextEnd::kEnd;
  step.pattern->for_each_match(piece, text_end, work, [&](size_t begin, size_t end) {
    keep_between(begin);
    if (rest >= part.stop) return false;
    if (step.behavior == Behavior::kMergedWithNext) return true;
    if (step.behavior != Behavior::kRemoved && end > begin)
      out.push_back(piece.substr(begin, end - begin));
    rest = end;
    return rest < part.stop;
  });
  if (!part.goes_on && rest < part.stop) keep_between(piece.size());
  return rest;
}

struct Span {
  size_t begin, end;
  bool is_match;
};

// The matches and what lies between them.
std::vector<Span> spans_of(const PreTokenizerStep& step, std::string_view piece,
                           PatternWork& work) {
  std::vector<Span> spans;
  size_t rest = 0;
  const auto keep_between = [&](size_t end) {
    if (end > rest) spans.push_back({rest, end, step.invert});
    rest = end;
  };
  step.pattern->for_each_match(piece, Pattern::TextEnd::kEnd, work, [&](size_t begin, size_t end) {
    keep_between(begin);
    spans.push_back({begin, end, !step.invert});
    rest = end;
    return true;
  });
  keep_between(piece.size());
  return spans;
}

// Joins spans of one kind with their neighbours.
void cut_and_merge(const PreTokenizerStep& step, std::string_view piece, PatternWork& work,
                   std::vector<std::string_view>& out) {
  std::vector<Span> spans = spans_of(step, piece, work);
  const bool backwards = step.behavior == Behavior::kMergedWithNext;
  if (backwards) std::ranges::reverse(spans);
  std::vector<Span> joined;
  bool was_match = false;
  for (const Span& span : spans) {
    const bool joins = step.behavior == Behavior::kContiguous ? span.is_match == was_match
                                                              : span.is_match && !was_match;
    was_match = span.is_match;
    if (!joins || joined.empty()) {
      joined.push_back(span);
      continue;
    }
    joined.back().begin = std::min(joined.back().begin, span.begin);
    joined.back().end = std::max(joined.back().end, span.end);
  }
  if (backwards) std::ranges::reverse(joined);
  for (const Span& span : joined) {
    if (span.end > span.begin) out.push_back(piece.substr(span.begin, span.end - span.begin));
  }
}

}  // namespace

std::shared_ptr<const PieceRewrite> prefix_space() { return std::make_shared<PrefixSpace>(); }
std::shared_ptr<const PieceRewrite> byte_letters_of_pieces() {
  return std::make_shared<ByteLettersOfPieces>();
}
std::shared_ptr<const PieceRewrite> space_sign(std::string sign, PrependScheme scheme) {
  return std::make_shared<SpaceSign>(std::move(sign), scheme);
}

bool PreTokenizer::asks_for_beginnings() const {
  return std::ranges::any_of(steps_, [](const PreTokenizerStep& step) {
    return step.rewrite != nullptr && step.rewrite->asks_for_beginnings();
  });
}

bool PreTokenizer::goes_on_anywhere() const {
  if (steps_.empty()) return false;
  const PreTokenizerStep& first = steps_.front();  // the others see its pieces alone
  return first.rewrite == nullptr && first.pattern != nullptr && streams(first) &&
         first.pattern->begins_anywhere();
}

bool PreTokenizer::begins_anywhere() const { return goes_on_anywhere() && !asks_for_beginnings(); }

Pieces PreTokenizer::split(std::string_view text, const TextPart& part, bool begins,
                           PatternWork& work) const {
  Pieces pieces;
  pieces.taken = text.size();
  size_t written_bytes = 0;  // all of them are kept
  if (!text.empty()) pieces.views.push_back(text);
  for (const PreTokenizerStep& step : steps_) {
    const bool is_first = &step == steps_.data();
    std::vector<std::string_view> next;
    for (size_t i = 0; i < pieces.views.size(); ++i) {
      std::string_view piece = pieces.views[i];
      if (step.rewrite != nullptr) {
        if (auto written = step.rewrite->apply(piece, begins && i == 0)) {
          work.write(written->size());
          require_sane_growth(written_bytes += written->size(), text.size());
          piece = pieces.owned.emplace_back(std::move(*written));
        }
      }
      if (step.pattern == nullptr) {
        next.push_back(piece);
      } else if (!streams(step)) {
        cut_and_merge(step, piece, work, next);
      } else {
        const size_t taken = cut_at_matches(step, piece, is_first ? part : TextPart{}, work, next);
        if (is_first && part.is_cut()) pieces.taken = taken;
      }
      if (i == 0) begins = begins && !next.empty() && next.front().data() == piece.data();
    }
    pieces.views = std::move(next);
  }
  return pieces;
}

}  // namespace ds
