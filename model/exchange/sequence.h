// Sequence parallelism as DeepSpeed-Ulysses does it (Jacobs et al., arXiv 2309.14509): each rank of
// a group has a part of every sequence, all of them equally long, and around attention they
// exchange: parts of all heads for some heads of whole sequences, and back. Beside that no layer
// needs to know, but for where its rows begin.
#pragma once

#include <vector>

#include "core/values/region.h"
#include "kernels/attention/attention.h"
#include "model/parallel/sequence_rows.h"
#include "model/pass/context.h"

namespace ds {

// `here`: what this rank has of the sequences, with all heads. The same attention, as it is
// computed between the two trades: all rows that they have together, and this rank's share of the
// heads.
kernels::AttentionShape attention_of_share(const kernels::AttentionShape& here, int ranks);

// Which elements of each sample [whole length, width] are those of this rank's rows, in the order
// in which they are here.
struct SamplePart {
  int64_t sample_numel = 0;
  std::vector<Range> kept{};
  bool is_whole() const { return kept.size() == 1 && kept.front().numel() == sample_numel; }
};
SamplePart sample_part(const Parallel& parallel, int64_t length, int64_t width);
// Returns the positions of a sequence's rows, of which `length` are here, in training.
Positions positions_here(const Parallel& parallel, int64_t length);

// qkv [batch * length, packed()] -> [batch * whole length, packed() / ranks]: queries, keys and
// values of this rank's heads. `here` as above. Collective over Parallel::group(Axis::kUlysses).
Var to_heads(Context& context, const kernels::AttentionShape& here, const Var& qkv);
// y [batch * whole length, heads * D / ranks] -> [batch * length, heads * D]. Collective likewise.
Var to_sequence(Context& context, const kernels::AttentionShape& here, const Var& y);

}  // namespace ds
