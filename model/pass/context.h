// What one forward pass runs with: where it computes, who owns the weights, whether it trains.
// Passed by reference through every layer; nothing of it is global.
#pragma once

#include <optional>

#include "core/device/stream.h"
#include "kernels/front/micro_inputs.h"
#include "model/parallel/parallel.h"
#include "model/pass/autograd.h"
#include "model/pass/batch.h"
#include "model/pass/number_watch.h"
#include "model/pass/param.h"

namespace ds {

class KvCache;
struct SegmentTimes;  // model/activations/recompute.h

// What is computed again in the backward pass, and not kept until then: see
// model/activations/recompute.h. Of a block's parts its own norms and residual stream are kept.
enum class RecomputedPart : uint8_t { kNone, kBlock, kAttention, kMlp };
struct Recompute {
  RecomputedPart part = RecomputedPart::kNone;
  bool synchronize = false;       // the host waits for the stream wherever a segment begins
  SegmentTimes* times = nullptr;  // null: nobody wants to know; otherwise the host waits, too
  // Each of the ranks that share layers keeps a part of what a segment keeps.
  bool partitions = false;
  bool again = false;  // a segment's second run: its outputs are there, only gradients are wanted
};

// The dtype that a product and attention have their operands in; nothing: as they come. Sums, what
// comes out and everything else keep the dtype of activations and weights (amp's O1, autocast).
using Operands = std::optional<DType>;
// As an operand: itself, or rounded.
Tensor as_operand(Stream& stream, const Tensor& x, Operands operands);
// The other way round: what was computed of operands, in the dtype that it has elsewhere.
Tensor as_value(Stream& stream, Tensor x, DType dtype);

// In place of what nobody reads: shape and dtype without memory.
Tensor unread_value(const Shape& shape, DType dtype);

// Hears of the scores of classes that evaluations make.
class ScoreObserver {
 public:
  virtual ~ScoreObserver() = default;
  // scores: fp32 [N, classes], targets: int32 [N], negative for a row that is not scored; values:
  // batch_field::kValues, undefined where targets are classes. All in memory of the stream. Not
  // called on meta.
  virtual void on_scores(Stream& stream, const Tensor& scores, const Tensor& targets,
                         const Tensor& values) = 0;
};

// Hears of each of the losses that a step's loss is the sum of, where it is of several.
class LossObserver {
 public:
  virtual ~LossObserver() = default;
  // losses: fp32 [N], in memory of the stream, whose sum is a share of the step's loss. Called on
  // meta, too, since it may allocate.
  virtual void on_losses(Stream& stream, std::string_view name, const Tensor& losses) = 0;
};

// How a forward pass is made: what is the same for all functions of it, or for those of a block.
struct PassSettings {
  RunMode mode = RunMode::kEval;
  // What dropout masks follow from, in memory of the stream's device until the backward pass is
  // done; null where nothing is dropped. They depend on the seed, the step and the sample's index
  // in the global batch, never on how the batch is spread over ranks and micro-steps.
  const MicroInputs* micro = nullptr;
  // What losses are multiplied by beside their factor before they are differentiated, in memory of
  // the stream's device; null: nothing.
  const double* loss_scale = nullptr;
  Operands operands = std::nullopt;
  Recompute recompute{};  // of the block that is being run
  // What functions give nobody reads, but their gradients are wanted: they may give unread_value()s
  // and make no more than they keep. For single functions: see end_of_segment().
  bool unread = false;
  bool distills = false;  // a model that has a teacher learns from it
  int64_t mlp_tiles = 1;  // runs of rows in an MLP: see model/activations/tiles.h
  int64_t length = 0;     // of samples, or of the parts of them that are here, in training
  int64_t first_row = 0;  // that a function has, where it has a tile of them
};

// Copies share all that is referred to.
struct Context {
  Stream& stream;
  ParameterStore* store;  // never null
  Tape* tape = nullptr;   // records the backward pass; null: none is wanted
  const Parallel& parallel = kUnshared;
  PassSettings pass{};
  KvCache* cache = nullptr;         // generation only: keys and values of the positions before
  NumberWatch* numbers = nullptr;   // looks at what functions give; null: nobody does
  ScoreObserver* scores = nullptr;  // null: nobody wants to know
  LossObserver* losses = nullptr;   // the same

  // For the functions whose outputs are those of a segment, and read by nobody in it.
  Context end_of_segment() const;
  // For a part of a segment, whose outputs the next part reads unless it is the last.
  Context part_of_segment(bool is_last) const;
  // For what a function gives: memory of the stream, or unread_value().
  Tensor room_for(const Shape& shape, DType dtype) const;
  // The same with another store and another tape, which outlive it.
  Context with(ParameterStore& other_store, Tape* other_tape) const;
  // Records on the tape, or, without one, returns the outputs as constants.
  std::vector<Var> record(std::string_view name, std::span<const Var> inputs,
                          std::vector<Tensor> outputs, Backward backward);
  // Shows it to who looks at numbers, if somebody does: of what a function does not record.
  void show(NumberKind kind, std::string_view name, const Tensor& made);
  // Tells whoever wants to know of a part of the loss, by its name.
  void report_loss(std::string_view name, const Tensor& part);
  // Keeps a tensor for the closure; an empty Saved without a tape, where no closure will run.
  Saved save(const Tensor& tensor);
  // True when someone will differentiate: only then is there anything to save.
  bool differentiates() const { return tape != nullptr; }
};

}  // namespace ds
