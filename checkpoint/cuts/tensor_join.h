// A parameter whose elements lie on several tensor-parallel ranks, as one (pure): which rank has
// which of them. Rules, shapes and cuts in, places out; no element is looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/values/region.h"

namespace ds::deepspeed {

using Extents = std::vector<int64_t>;

// CutRule is what universal_checkpoint_info says of a parameter.
struct CutRule {
  enum class Kind : uint8_t {
    kCut,   // along an axis
    kSame,  // each rank has all of it
    kMean,  // each rank has numbers of its own for all of it, and their mean counts
  };
  Kind kind = Kind::kCut;
  int64_t axis = 0;
  // Sub-parameters that follow each other along the axis, each of which is cut by itself: so many
  // of equal extents, or of these, which ranks share evenly, or what each rank has of each
  // ([sub-parameter][rank]).
  int64_t equal_parts = 1;
  Extents sizes{};
  std::vector<Extents> widths{};
  // The shape in which the axis counts, where the ranks' tensors have another; extents below 0
  // follow from the others.
  Extents view{};
  std::optional<int64_t> rows{};  // of the whole, where those behind them are padding
};

// Consecutive elements along the axis.
struct JoinedRun {
  struct Holder {
    size_t rank = 0;
    int64_t first = 0;  // along the axis of its tensor
    friend bool operator==(const Holder&, const Holder&) = default;
  };
  int64_t numel = 0;
  std::vector<Holder> holders{};  // all of them have the same; one at least
  friend bool operator==(const JoinedRun&, const JoinedRun&) = default;
};

struct TensorJoin {
  Extents shape{};                // of the whole
  int64_t inner = 1;              // elements for each place along the axis
  Extents extents{};              // of each rank along the axis
  std::vector<JoinedRun> runs{};  // in order along the axis
  bool is_mean = false;
};

// `shapes`: by rank. DataError, in words that name no file, where they do not fit the rule or each
// other.
TensorJoin join_of(const CutRule& rule, std::span<const Extents> shapes);

// FamilyCut is how a model of a family here is cut over as many ranks.
struct FamilyCut {
  Shape whole{};
  std::vector<Cut> ranks{};
  bool is_vocabulary = false;  // its rows are tokens, behind which a writer may have padding
};

// The ranks have what the cut says, or all of it, or equal or unequal pieces along the axis of a
// cut that does not take several ranges. DataError for other shapes.
TensorJoin join_of(const FamilyCut& cut, std::span<const Extents> shapes);

// Elements that lie together on each of the holders.
struct JoinedPiece {
  std::span<const JoinedRun::Holder> holders;
  int64_t offset = 0;  // from where a holder's run begins in its tensor, see first_of
  int64_t outer = 0;   // places before the axis
  int64_t numel = 0;
};
// That which begins with element `at` of the whole.
JoinedPiece piece_at(const TensorJoin& join, int64_t at);
// The element of the holder's tensor that a piece begins with.
int64_t first_of(const TensorJoin& join, const JoinedPiece& piece, const JoinedRun::Holder& holder);

}  // namespace ds::deepspeed
