// Tensor parallelism as Megatron-LM does it (Shoeybi et al., arXiv 1909.08053): each rank of a
// group has some columns of the first of two products and the rows of the second that meet them, so
// one sum over the ranks ends each pair; heads of attention, and rows of the vocabulary, are shared
// out likewise. What lies between pairs (norms, dropout, the residual stream) every rank has whole,
// and computes alike to the bit.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/mesh_layout.h"
#include "config/families/list.h"
#include "core/values/region.h"
#include "kernels/embedding/embedding.h"
#include "kernels/softmax/softmax.h"
#include "model/pass/context.h"

namespace ds {

// One of the ranks that share each layer.
struct TensorPlace {
  int rank = 0;
  int ranks = 1;
  int64_t grain = 1;  // rows of the vocabulary and elements between the MLP's products that stay
                      // together
  bool shares_rows = false;  // as Parallel has it
  bool is_shared() const { return ranks > 1; }
};

// What of a model's layers that one has.
struct TensorShare {
  Range heads, kv_heads, inner, vocabulary;
  std::vector<Range> experts{};  // elements of experts, by ExpertsSpec::inner_widths()
  bool shares_rows = false;
  int key_replicas = 1;  // ranks that have these very kv_heads, each for some of their queries
  bool has_size_of(const TensorShare& other) const;
};
// Ranks of a tensor group that have the same heads of keys and values, where these are fewer than
// the ranks: neighbours, whose heads of queries look at them (grouped queries, arXiv 2305.13245).
int key_replicas(const ModelDimensions& dims, int ranks);
// With their axis.
MeshSizes mesh_for(const ModelDimensions& dims, MeshSizes sizes);
// Heads alike on all ranks, the rest as evenly as grains permit. InternalError for what
// tensor_conflict() refuses.
TensorShare tensor_share(const ModelDimensions& dims, const TensorPlace& place);
TensorShare tensor_share(const ModelConfig& model, const TensorPlace& place);  // also of experts
// The dimensions of that share, as of a model: of attention and MLP, not of the vocabulary.
ModelDimensions dimensions_of_share(ModelDimensions dims, const TensorShare& share);

// The rows of the vocabulary that a parameter [V, C] has here, as kernels are told.
kernels::TablePart table_part(const ParamSpec& table);

// Before and after a pair of products that ranks share; as they are where nobody does. What enters
// is whole on every rank, and its gradient is the sum of theirs; what leaves is a part of a sum on
// each, which is made in place, and its gradient is whole. Where rows are shared, too, those of all
// ranks are gathered where they enter, and of a sum, there and of gradients here, each gets its
// own. Collective over Parallel::group(Axis::kTensor).
Var enter_tensor(Context& context, Var x);
Var leave_tensor(Context& context, Var y);
// These return rows x [N, C] of a sum: those that this rank has between layers, or all of them if
// rows are not shared, summed in place; and, of such rows, those of all ranks.
Tensor sum_of_tensor(Context& context, Tensor x);
Tensor rows_of_all(Stream& stream, Communicator& group, const Tensor& x);
// What lies between layers where rows are not shared is alike on all ranks: this rank's part of
// such a value, flat, and the value again of everybody's parts. Collective over
// Parallel::group(Axis::kTensor).
bool has_parts(const Context& context);
Tensor part_of(Context& context, const Tensor& alike);
Tensor whole_of(Context& context, const Tensor& part, const Shape& shape);
// Returns how many rows between layers the ranks before this one have, if it has `rows`.
int64_t rows_before(const Context& context, int64_t rows);
// Whether this rank is the one that adds what all have whole (a bias, positions) to its part of a
// sum.
bool adds_what_all_have(const Context& context);
// How the losses of a head of which each rank has some rows are made: logits stay where they are,
// three numbers of each token go to the other ranks.
kernels::SharedVocabulary shared_vocabulary(Context& context, const ParamSpec& head);

}  // namespace ds
