// Parameters as a model sees them: named specs handed to a ParameterStore, whole weights seen
// through leases, gradients written into slots. Which rank holds which bytes is the store's
// business: PlainStore (model/stores/plain_store.h) keeps everything here, ShardedStore (zero/)
// implements ZeRO stages 0-3.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/mesh_layout.h"
#include "core/device/tensor.h"
#include "core/values/region.h"
#include "core/values/rng.h"
#include "kernels/front/write.h"

namespace ds {

using ParamId = int;  // 0, 1, 2, ... in order of add()
inline constexpr ParamId kNoParam = -1;

// How a parameter starts; a pure function of the seed and the element's index in the whole tensor,
// so that every sharding starts from the same bits.
struct Initializer {
  enum class Kind : uint8_t { kZeros, kOnes, kNormal, kUniform } kind = Kind::kZeros;
  float extent = 0.0F;  // the standard deviation, or the bound on either side of 0
};

// Which ranks train the same elements on other samples: all of the data axis, or, for an expert,
// those of the expert-data axis.
enum class ParamGroup : uint8_t { kDense, kExpert };

// What kind of layer a parameter is of, as PyTorch's modules are named.
enum class ModuleKind : uint8_t { kOther, kLinear, kEmbedding, kLayerNorm };

// Further axes along which every rank has this very parameter, or this very cut of it.
struct Replicas {
  std::vector<Axis> same{};    // and makes the same gradient: a norm beside tensor-parallel layers
  std::vector<Axis> summed{};  // and makes a part of the gradient, from tokens of its own
};

// StoredRows says where the rows of a parameter lie among those of a tensor that a Hugging Face
// folder stores for several: in blocks, as far from each other as `stride` says.
struct StoredRows {
  std::string name{};  // of that tensor: "model.layers.0.self_attn.qkv_proj.weight"
  int64_t rows = 0;    // of it
  int64_t first = 0;
  int64_t block = 1;
  int64_t stride = 1;  // from the first row of a block to that of the next

  int64_t row_of(int64_t own) const { return first + own / block * stride + own % block; }
};

struct ParamSpec {
  std::string name;  // Hugging Face name: "transformer.h.0.attn.c_attn.weight"
  Shape shape;  // here; where a cut keeps only some of the logical tensor, the shape of that cut
  DType dtype = DType::kF32;  // of the weight the model computes with, and of its gradient
  Initializer init{};
  ModuleKind module = ModuleKind::kOther;
  bool looked_up = false;     // a table of which the forward pass reads rows by their tokens
  bool trains = true;         // else it is frozen: it has no gradient, and nobody asks for a slot
  bool packs = false;         // where it is frozen it may be kept as codes: a linear layer's weight
  bool second_model = false;  // of one beside the trained one: checkpoints and exports lack it
  int unit = 0;               // number of the model block it belongs to: buckets do not span units
  Shape global{};             // of the logical tensor, where there is a cut
  Cut cut{};                  // what is kept of it here; none: all
  ParamGroup group = ParamGroup::kDense;
  Replicas replicas{};
  std::optional<StoredRows> stored{};  // unset: a folder stores it by itself, under its name
  // A folder may store it in equal pieces instead, one after the other, under these names: those of
  // experts, which are one parameter [experts, out, in] here.
  std::vector<std::string> pieces{};

  const Shape& logical_shape() const { return cut.is_whole() ? shape : global; }
  // Elements [begin, end) of the flattened parameter as it is here.
  Region region(int64_t begin, int64_t end) const { return {cut, {begin, end}}; }
  Region region() const { return region(0, shape.numel()); }
};

// The right to see a whole weight. Dropping the last lease of a bucket releases what was gathered.
class Lease {
 public:
  Lease(Tensor weight, std::function<void()> release)
      : weight_(std::move(weight)), release_(std::move(release)) {}
  ~Lease() {
    if (release_) release_();
  }
  Lease(Lease&& other) noexcept
      : weight_(std::move(other.weight_)), release_(std::exchange(other.release_, nullptr)) {}
  Lease& operator=(Lease&&) = delete;
  Lease(const Lease&) = delete;  // counted by the store
  Lease& operator=(const Lease&) = delete;
  const Tensor& weight() const { return weight_; }

 private:
  Tensor weight_;
  std::function<void()> release_;
};

// A GradSlot is where the gradient of one parameter goes. The first writer of a backward pass
// overwrites, later ones (a tied weight, a further micro-step into the same memory) accumulate; the
// store says which.
struct GradSlot {
  Tensor grad;  // the parameter's shape and dtype (or fp32, if the store accumulates so)
  kernels::Write write = kernels::Write::kOverwrite;
};

class ParameterStore {
 public:
  virtual ~ParameterStore() = default;
  virtual ParamId add(ParamSpec spec) = 0;
  virtual void seal() = 0;  // lays out and allocates; no add() afterwards
  virtual int count() const = 0;
  virtual const ParamSpec& spec(ParamId id) const = 0;
  // Whether there is such a parameter, which may be kNoParam, and it trains.
  bool trains(ParamId id) const { return id != kNoParam && spec(id).trains; }

  // Whole weight while the lease lives; gathers if it must. All ranks acquire in the same order.
  virtual Lease acquire(ParamId id) = 0;
  // Memory for the gradient; call once per contribution, write it before the next call for this id.
  virtual GradSlot grad_slot(ParamId id) = 0;
  // This contribution is complete. A parameter expects `uses` contributions per backward (see
  // expect_uses); with the last one its bucket may be reduced.
  virtual void grad_ready(ParamId id) = 0;
  // Before grad_ready() of a table that is looked up: the order of the tokens whose rows this
  // contribution has; others are zero in it.
  virtual void rows_touched(ParamId /*id*/, const Tensor& /*order*/) {}
  // A tied weight gets several contributions per backward; default 1. Called before seal().
  virtual void expect_uses(ParamId id, int uses) = 0;

  // Around forward and whole backward of one micro-batch. With several under way the calls of one
  // come between those of another; a store that cannot tell them apart says so.
  virtual void begin_micro_step() {}
  virtual void end_micro_step() {}
  // Once per step, after the last micro-batch and what pipeline stages add to each other's: what is
  // left to be summed with other ranks.
  virtual void reduce_gradients() {}
  // The whole gradient, summed over the micro-batches of a step: what is added to that of another
  // pipeline stage which has the parameter too.
  virtual Tensor summed_gradient(ParamId id) {
    throw Unsupported(
        fmt::format("pipeline parallelism: {} is shared by two stages, and this store keeps no "
                    "whole gradient of it until the end of the step",
                    spec(id).name));
  }
};

}  // namespace ds
