// Cutting text into the pieces that a model works on separately, by the steps of a tokenizer.json.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/split/cut_places.h"
#include "data/tokenizer/split/pattern.h"
#include "data/tokenizer/text/text_part.h"

namespace ds {

// Pieces of a text, in order: views of it, or of strings owned here.
struct Pieces {
  std::vector<std::string_view> views;
  std::deque<std::string> owned;
  size_t taken = 0;  // bytes of the text that they are
};

// What a step writes in the place of each piece before it cuts it (pure).
class PieceRewrite {
 public:
  virtual ~PieceRewrite() = default;
  // `begins`: the piece is what a whole text begins with. Nothing where the piece stays.
  virtual std::optional<std::string> apply(std::string_view piece, bool begins) const = 0;
  virtual bool asks_for_beginnings() const { return false; }
  // Whether it makes of a text that is cut at such a place what it makes of the parts, the second
  // of which does not begin a text.
  virtual bool may_be_cut(CutPlaces::Kind) const { return false; }
};
std::shared_ptr<const PieceRewrite> prefix_space();  // a space before each piece without one
std::shared_ptr<const PieceRewrite> byte_letters_of_pieces();
enum class PrependScheme { kAlways, kFirst, kNever };
// SentencePiece's sign in the place of spaces, and before pieces by the scheme.
std::shared_ptr<const PieceRewrite> space_sign(std::string sign, PrependScheme scheme);

struct PreTokenizerStep {
  // What becomes of matches: a piece each; nothing; the only pieces; part of the piece before or
  // behind them; one piece with the matches beside them.
  enum class Behavior {
    kIsolated,
    kRemoved,
    kOnly,
    kMergedWithPrevious,
    kMergedWithNext,
    kContiguous
  };
  std::shared_ptr<const PieceRewrite> rewrite = nullptr;  // null: pieces stay
  std::shared_ptr<const Pattern> pattern = nullptr;       // null: no cut
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;  // what lies between matches is what is matched
};

// Applies the steps in turn, each to every piece of the one before. Thread-safe.
class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}
  // `begins`: the text is not the part of a text that others went before.
  Pieces split(std::string_view text, const TextPart& part, bool begins, PatternWork& work) const;
  // Whether it counts that a piece is what a whole text begins with.
  bool asks_for_beginnings() const;
  // Whether the pieces of a text that is cut between two pieces are those of its parts, the second
  // of which is known to be one; and also where that is not known.
  bool goes_on_anywhere() const;
  bool begins_anywhere() const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace ds
