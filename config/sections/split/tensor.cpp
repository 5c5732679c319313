#include "config/sections/split/tensor.h"

#include <fmt/format.h>

#include <numeric>

namespace ds {
namespace {

std::string heads_conflict(const ModelDimensions& model, const TensorSplit& split) {
  const int64_t heads = std::gcd(model.heads, model.kv_heads);
  const bool is_grouped = model.kv_heads != model.heads;
  const std::string of_keys =
      is_grouped ? fmt::format(" and {} of keys and values", model.kv_heads) : "";
  const bool repeats_keys = model.kv_heads % split.ranks != 0;
  if (model.heads % split.ranks != 0 || (repeats_keys && split.ranks % model.kv_heads != 0)) {
    const std::string or_more = is_grouped ? fmt::format(", or a multiple of {} that divides {}",
                                                         model.kv_heads, model.heads)
                                           : "";
    return fmt::format("{} ranks cannot share {} heads{} equally; expected a divisor of {}{}",
                       split.ranks, model.heads, of_keys, heads, or_more);
  }
  if (repeats_keys && split.offloads_state) {
    return fmt::format(
        "{} ranks have the {} heads of keys and values several times, and sum gradients that "
        "zero_optimization.offload_optimizer would take off the device; expected a divisor of {}, "
        "or no offload_optimizer",
        split.ranks, model.kv_heads, heads);
  }
  if ((repeats_keys ? 1 : heads / split.ranks) % split.sequence == 0) return "";
  return fmt::format(
      "{} ranks for each layer times {} of sequence_parallel_size that exchange heads cannot share "
      "{} "
      "heads{} equally; expected a product that divides {}",
      split.ranks, split.sequence, model.heads, of_keys, heads);
}

// Less than a grain is shared out one by one.
bool has_some_for_all(int64_t total, const TensorSplit& split) {
  return (total >= split.grain ? total / split.grain : total) >= split.ranks;
}

}  // namespace

std::string tensor_conflict(const ModelDimensions& model, const TensorSplit& split) {
  if (split.ranks > 1 && split.shares_rows && split.offloads_state) {
    return "tensor_parallel.sequence_parallel sums gradients of norms over the ranks of a layer, "
           "which zero_optimization.offload_optimizer would take off the device; remove one of "
           "them";
  }
  if (split.ranks > 1 && split.norms_heads && split.offloads_state) {
    return "the ranks of a layer sum gradients of the norms of heads, which "
           "zero_optimization.offload_optimizer would take off the device; remove one of them";
  }
  if (std::string why = heads_conflict(model, split); !why.empty()) return why;
  const auto too_few = [&](const char* what, int64_t total) {
    return fmt::format("{} ranks cannot each have some of {} {} in grains of {} (tp.tp_grain_size)",
                       split.ranks, total, what, split.grain);
  };
  if (!has_some_for_all(model.inner, split)) return too_few("columns of the MLP", model.inner);
  if (!has_some_for_all(model.vocabulary, split)) {
    return too_few("rows of the vocabulary", model.vocabulary);
  }
  return "";
}

std::string tensor_conflict(const ModelConfig& model, TensorSplit split) {
  const std::optional<HeadNorms> norms = transformer_spec(model).head_norms;
  split.norms_heads = norms && norms->extent != HeadNorms::Extent::kAllHeads;
  ModelDimensions dims = dimensions(model);
  if (std::string why = tensor_conflict(dims, split); !why.empty()) return why;
  const std::optional<ExpertsSpec> experts = transformer_spec(model).experts;
  if (!experts) return "";
  for (const int64_t inner : experts->inner_widths()) {
    dims.inner = inner;
    if (std::string why = tensor_conflict(dims, split); !why.empty()) return why;
  }
  return "";
}

}  // namespace ds
