// Pipeline schedules: closed forms for the step-locked kinds, orders with buffers and messages for
// the others.
#include "model/parallel/pipeline_schedule.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/status/error.h"
#include "core/values/index.h"
#include "model/parallel/pipeline_schedule_orders.h"

namespace ds {

namespace {

using Steps = std::vector<std::vector<PipelineInstruction>>;
using Step = std::vector<PipelineInstruction>;

void append_update(Step& step) {
  for (const auto op :
       {PipelineOp::kReduceTiedGrads, PipelineOp::kReduceGrads, PipelineOp::kOptimizerStep}) {
    step.push_back({.op = op});
  }
}

// Builds the steps of one stage of a chain without chunks.
class Chain {
 public:
  Chain(const PipelineShape& shape, int stage, int buffers)
      : shape_(shape), stage_(stage), buffers_(buffers) {}

  bool first() const { return stage_ == 0; }
  bool last() const { return stage_ == shape_.stages - 1; }
  bool valid(int micro) const { return 0 <= micro && micro < shape_.micro_batches; }

  void add(Step& step, PipelineOp op, int micro) const {
    int peer = -1;
    if (op == PipelineOp::kSendActivation || op == PipelineOp::kRecvGrad) peer = stage_ + 1;
    if (op == PipelineOp::kRecvActivation || op == PipelineOp::kSendGrad) peer = stage_ - 1;
    step.push_back(
        {.op = op, .buffer = micro % buffers_, .micro_batch = micro, .chunk = 0, .peer = peer});
  }

 private:
  PipelineShape shape_;
  int stage_;
  int buffers_;
};

PipelineSchedule inference(const PipelineShape& shape, int stage) {
  constexpr int kBuffers = 2;
  const Chain chain(shape, stage, kBuffers);
  PipelineSchedule schedule{.buffer_count = kBuffers, .steps = {}};
  for (int t = 0; t < shape.micro_batches + shape.stages - 1; ++t) {
    Step& step = schedule.steps.emplace_back();
    const int micro = t - stage;
    const bool has = chain.valid(micro);
    if (has && (chain.first() || chain.last())) chain.add(step, PipelineOp::kLoadMicroBatch, micro);
    const auto send = [&] {
      if (!chain.last() && chain.valid(micro - 1))
        chain.add(step, PipelineOp::kSendActivation, micro - 1);
    };
    // Neighbours take opposite orders, so that even blocking messages meet.
    if (stage % 2 == 0) send();
    if (has && !chain.first()) chain.add(step, PipelineOp::kRecvActivation, micro);
    if (stage % 2 == 1) send();
    if (has) chain.add(step, PipelineOp::kForwardPass, micro);
  }
  return schedule;
}

// In time slots, with p stages: stage s runs the forward of micro-batch k in slot s + 2k and its
// backward in slot 2p - 1 - s + 2k. The slots of a stage therefore alternate, and each sends what
// the slot before produced.
PipelineSchedule one_forward_one_backward(const PipelineShape& shape, int stage) {
  const int p = shape.stages;
  const int buffers = std::max(2, std::min(p - stage, shape.micro_batches));
  const Chain chain(shape, stage, buffers);
  PipelineSchedule schedule{.buffer_count = buffers, .steps = {}};
  const int slots = 2 * (shape.micro_batches + p - 1);
  for (int t = 0; t < slots; ++t) {
    Step& step = schedule.steps.emplace_back();
    const auto forward_at = [&](int slot) { return slot < stage ? -1 : (slot - stage) / 2; };
    const auto backward_at = [&](int slot) {
      const int begin = 2 * p - 1 - stage;
      return slot < begin ? -1 : (slot - begin) / 2;
    };
    const bool forward = (t - stage) % 2 == 0;
    const int micro = forward ? forward_at(t) : backward_at(t);
    const int before = forward ? backward_at(t - 1) : forward_at(t - 1);
    if (forward && !chain.first()) {
      if (chain.valid(before)) chain.add(step, PipelineOp::kSendGrad, before);
      if (chain.valid(micro)) chain.add(step, PipelineOp::kRecvActivation, micro);
    }
    if (!forward && !chain.last()) {
      if (chain.valid(micro)) chain.add(step, PipelineOp::kRecvGrad, micro);
      if (chain.valid(before)) chain.add(step, PipelineOp::kSendActivation, before);
    }
    if (chain.valid(micro)) {
      if (forward && (chain.first() || chain.last()))
        chain.add(step, PipelineOp::kLoadMicroBatch, micro);
      chain.add(step, forward ? PipelineOp::kForwardPass : PipelineOp::kBackwardPass, micro);
    }
    if (t == slots - 1) append_update(step);
  }
  return schedule;
}

PipelineSchedule data_parallel(const PipelineShape& shape) {
  const Chain chain(shape, 0, 1);
  PipelineSchedule schedule{.buffer_count = 1, .steps = {}};
  for (int k = 0; k < shape.micro_batches; ++k) {
    Step& step = schedule.steps.emplace_back();
    for (const auto op :
         {PipelineOp::kLoadMicroBatch, PipelineOp::kForwardPass, PipelineOp::kBackwardPass}) {
      chain.add(step, op, k);
    }
  }
  // One stage has no weights in common with another.
  schedule.steps.back().push_back({.op = PipelineOp::kReduceGrads});
  schedule.steps.back().push_back({.op = PipelineOp::kOptimizerStep});
  return schedule;
}

// Gives every micro-batch of a chunk a slot from its forward until nothing needs its activations
// any more.
class Slots {
 public:
  int take(int chunk, int micro) {
    const auto free = std::ranges::find(used_, false);
    const size_t slot = to_size(free - used_.begin());
    if (slot == used_.size()) used_.push_back(false);
    used_[slot] = true;
    return held_[{chunk, micro}] = static_cast<int>(slot);
  }
  int at(int chunk, int micro) const { return held_.at({chunk, micro}); }
  void release(int chunk, int micro) { nth(used_, at(chunk, micro)) = false; }
  int count() const { return narrow<int>(used_.size()); }

 private:
  std::vector<bool> used_;
  std::map<std::pair<int, int>, int> held_;
};

PipelineSchedule with_messages(PipelineKind kind, const PipelineShape& shape, int stage,
                               const std::vector<detail::PipelineWork>& order) {
  PipelineSchedule schedule;
  Slots slots;
  const int last_virtual = shape.stages * shape.chunks - 1;
  for (const auto& work : order) {
    const int at = virtual_stage(kind, shape, stage, work.chunk);
    const bool forward = work.op == PipelineOp::kForwardPass;
    const int slot =
        forward ? slots.take(work.chunk, work.micro_batch) : slots.at(work.chunk, work.micro_batch);
    Step& step = schedule.steps.emplace_back();
    const auto add = [&](PipelineOp op, int peer) {
      step.push_back({.op = op,
                      .buffer = slot,
                      .micro_batch = work.micro_batch,
                      .chunk = work.chunk,
                      .peer = peer});
    };
    // The neighbour in the chain, where it is another rank.
    const auto message = [&](PipelineOp op, int neighbour) {
      if (neighbour < 0 || neighbour > last_virtual) return;
      if (const int peer = stage_of(kind, shape, neighbour); peer != stage) add(op, peer);
    };
    if (forward) {
      if (at == 0 || at == last_virtual) add(PipelineOp::kLoadMicroBatch, -1);
      message(PipelineOp::kRecvActivation, at - 1);
      add(work.op, -1);
      message(PipelineOp::kSendActivation, at + 1);
    } else if (work.op == PipelineOp::kBackwardWeight) {
      add(work.op, -1);
    } else {
      message(PipelineOp::kRecvGrad, at + 1);
      add(work.op, -1);
      message(PipelineOp::kSendGrad, at - 1);
    }
    const bool finished =
        work.op == PipelineOp::kBackwardPass || work.op == PipelineOp::kBackwardWeight;
    if (finished) slots.release(work.chunk, work.micro_batch);
  }
  schedule.buffer_count = slots.count();
  return schedule;
}

PipelineSchedule with_update(PipelineSchedule schedule) {
  append_update(schedule.steps.back());
  return schedule;
}

void check_places(PipelineKind kind, const PipelineShape& shape, int stage) {
  if (shape.micro_batches < 1 || shape.stages < 1 || shape.chunks < 1) {
    throw ConfigError(
        fmt::format("pipeline: {} micro-batches, {} stages, {} chunks, expected 1 or more of each",
                    shape.micro_batches, shape.stages, shape.chunks));
  }
  if (stage < 0 || stage >= shape.stages) {
    throw ConfigError(fmt::format("pipeline: stage {} is outside 0..{}", stage, shape.stages - 1));
  }
  const bool any_chunks = kind == PipelineKind::kInterleaved;
  const int chunks = kind == PipelineKind::kZeroBubbleV ? 2 : 1;
  if (!any_chunks && shape.chunks != chunks) {
    throw ConfigError(fmt::format("pipeline: {} has {} chunks per rank, expected {}",
                                  to_string(kind), shape.chunks, chunks));
  }
}

void check(PipelineKind kind, const PipelineShape& shape, int stage) {
  check_places(kind, shape, stage);
  const bool in_rounds = kind == PipelineKind::kInterleaved && shape.chunks > 1;
  if (in_rounds && shape.micro_batches % shape.stages != 0) {
    throw ConfigError(fmt::format(
        "pipeline: {} micro-batches are not a multiple of {} stages, as interleaving needs",
        shape.micro_batches, shape.stages));
  }
}

}  // namespace

int virtual_stage(PipelineKind kind, const PipelineShape& shape, int stage, int chunk) {
  if (kind == PipelineKind::kZeroBubbleV && chunk == 1) return 2 * shape.stages - 1 - stage;
  return chunk * shape.stages + stage;
}

int stage_of(PipelineKind kind, const PipelineShape& shape, int virtual_stage) {
  if (kind == PipelineKind::kZeroBubbleV && virtual_stage >= shape.stages) {
    return 2 * shape.stages - 1 - virtual_stage;
  }
  return virtual_stage % shape.stages;
}

PipelineSchedule pipeline_schedule(PipelineKind kind, const PipelineShape& shape, int stage) {
  check(kind, shape, stage);
  switch (kind) {
    case PipelineKind::kInference:
      return inference(shape, stage);
    case PipelineKind::kDataParallel:
      return data_parallel(shape);
    case PipelineKind::k1F1B:
      return one_forward_one_backward(shape, stage);
    case PipelineKind::kGpipe:
      return with_update(
          with_messages(kind, shape, stage, detail::gpipe_order(shape.micro_batches)));
    case PipelineKind::kInterleaved:
      return with_update(
          with_messages(kind, shape, stage, detail::interleaved_order(shape, stage)));
    case PipelineKind::kZeroBubbleH1:
      return with_update(
          with_messages(kind, shape, stage, detail::zero_bubble_h1_order(shape, stage)));
    case PipelineKind::kZeroBubbleV:
      return with_update(
          with_messages(kind, shape, stage, detail::zero_bubble_v_order(shape, stage)));
  }
  throw InternalError("pipeline: unknown schedule");
}

PipelineSchedule forward_schedule(PipelineKind kind, const PipelineShape& shape, int stage) {
  check_places(kind, shape, stage);
  std::vector<detail::PipelineWork> order;
  for (int k = 0; k < shape.micro_batches; ++k) {
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      order.push_back({PipelineOp::kForwardPass, chunk, k});
    }
  }
  return with_messages(kind, shape, stage, order);
}

}  // namespace ds
