#include "train/eigenvalue/probed_store.h"

#include <algorithm>

#include "core/memory/rounding.h"

namespace ds {
namespace {

constexpr int64_t kGap = 64;  // elements: no vector of a kernel reaches over it

struct Seen {
  ParamId id = 0;
  Tensor weight{};
};

// Returns the weights of the block in the order in which they lie in memory.
std::vector<Seen> weights_of(ParameterStore& store, std::span<const ParamId> block) {
  std::vector<Seen> seen;
  for (const ParamId id : block) {
    const Lease lease = store.acquire(id);
    DS_CHECK(lease.weight().dtype() == DType::kF32, "probed store: {} is {}, expected fp32",
             store.spec(id).name, name_of(lease.weight().dtype()));
    seen.push_back({id, lease.weight()});
  }
  std::ranges::sort(seen, {}, [](const Seen& one) { return one.weight.address(); });
  return seen;
}

}  // namespace

// What lies side by side in the other store does so here, and nothing else does: layers that have
// their parts as one matrix compute, and allocate, as they do in training.
ProbedStore::ProbedStore(ParameterStore& store, std::span<const ParamId> block, Stream& stream)
    : store_(store) {
  const std::vector<Seen> seen = weights_of(store, block);
  std::vector<int64_t> offsets;
  int64_t end = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    const bool follows = i > 0 && seen[i - 1].weight.joined_with(seen[i].weight).defined();
    if (i > 0 && !follows) end = round_up(end, kGap) + kGap;
    offsets.push_back(end);
    end += seen[i].weight.numel();
  }
  const Tensor all = Tensor::empty({end}, DType::kF32, stream, MemoryTag::kScratch);
  for (size_t i = 0; i < seen.size(); ++i) {
    const Tensor& weight = seen[i].weight;
    weights_[seen[i].id] = all.narrow(offsets[i], weight.numel()).reshape(weight.shape());
  }
}

Lease ProbedStore::acquire(ParamId id) {
  const auto own = weights_.find(id);
  return own == weights_.end() ? store_.acquire(id) : Lease(own->second, nullptr);
}

GradSlot ProbedStore::grad_slot(ParamId id) {
  GradSlot slot = store_.grad_slot(id);
  if (weights_.contains(id)) gradients_[id] = slot.grad;
  return slot;
}

}  // namespace ds
