// A discrete simulation of a pipeline: each stage is one clock, each message a time of arrival.
#include "model/parallel/pipeline_timing.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

namespace {

struct Message {
  PipelineOp sent_as;
  int micro_batch;
  int64_t arrival;
};

class Player {
 public:
  Player(std::span<const PipelineSchedule> schedules, const InstructionCost& cost, int64_t message)
      : cost_(cost), message_(message) {
    for (const PipelineSchedule& schedule : schedules) {
      Stage& stage = stages_.emplace_back();
      for (const auto& step : schedule.steps) {
        stage.todo.insert(stage.todo.end(), step.begin(), step.end());
      }
    }
  }

  PipelineTime play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < stages_.size(); ++s) {
        while (!stages_[s].todo.empty() && advance(static_cast<int>(s), stages_[s])) moved = true;
      }
    }
    PipelineTime result;
    for (size_t s = 0; s < stages_.size(); ++s) {
      DS_CHECK(stages_[s].todo.empty(), "pipeline: stage {} waits for ever at {}", s,
               to_string(stages_[s].todo.front()));
      result.stages.push_back(stages_[s].time);
      result.makespan = std::max(result.makespan, stages_[s].time.end);
    }
    return result;
  }

 private:
  struct Stage {
    std::deque<PipelineInstruction> todo;
    int64_t clock = 0;
    bool started = false;
    int64_t live = 0;
    PipelineStageTime time;
  };

  bool advance(int s, Stage& stage) {
    const PipelineInstruction next = stage.todo.front();
    switch (next.op) {
      case PipelineOp::kSendActivation:
      case PipelineOp::kSendGrad:
        DS_CHECK(next.peer >= 0 && next.peer < narrow<int>(stages_.size()),
                 "pipeline: stage {} sends to stage {}", s, next.peer);
        wires_[{s, next.peer}].push_back({next.op, next.micro_batch, stage.clock + message_});
        break;
      case PipelineOp::kRecvActivation:
        if (!receive(s, stage, next, PipelineOp::kSendActivation)) return false;
        break;
      case PipelineOp::kRecvGrad:
        if (!receive(s, stage, next, PipelineOp::kSendGrad)) return false;
        break;
      default:
        work(s, stage, next);
    }
    stage.todo.pop_front();
    return true;
  }

  // Activations and gradients between two ranks travel on separate wires, each in order.
  bool receive(int s, Stage& stage, const PipelineInstruction& next, PipelineOp sent_as) {
    auto& wire = wires_[{next.peer, s}];
    const auto found = std::ranges::find(wire, sent_as, &Message::sent_as);
    if (found == wire.end()) return false;
    DS_CHECK(found->micro_batch == next.micro_batch,
             "pipeline: stage {} expects micro-batch {}, but {} comes", s, next.micro_batch,
             found->micro_batch);
    stage.clock = std::max(stage.clock, found->arrival);
    wire.erase(found);
    return true;
  }

  void work(int s, Stage& stage, const PipelineInstruction& next) {
    const PipelineOp op = next.op;
    if (op == PipelineOp::kLoadMicroBatch || op >= PipelineOp::kReduceTiedGrads) return;
    const int64_t cost = cost_(s, next);
    if (!std::exchange(stage.started, true)) stage.time.start = stage.clock;
    stage.clock += cost;
    stage.time.busy += cost;
    stage.time.end = stage.clock;
    if (op == PipelineOp::kForwardPass) ++stage.live;
    stage.time.activations_peak = std::max(stage.time.activations_peak, stage.live);
    if (op == PipelineOp::kBackwardPass || op == PipelineOp::kBackwardWeight) --stage.live;
  }

  const InstructionCost& cost_;
  const int64_t message_;
  std::vector<Stage> stages_;
  std::map<std::pair<int, int>, std::deque<Message>> wires_;
};

}  // namespace

PipelineTime time_pipeline(std::span<const PipelineSchedule> stages, const PipelineCosts& costs) {
  const auto cost = [&costs](int, const PipelineInstruction& work) {
    switch (work.op) {
      case PipelineOp::kForwardPass:
        return costs.forward;
      case PipelineOp::kBackwardInput:
        return costs.backward_input;
      case PipelineOp::kBackwardWeight:
        return costs.backward_weight;
      default:
        return costs.backward_input + costs.backward_weight;
    }
  };
  return time_pipeline(stages, cost, costs.message);
}

PipelineTime time_pipeline(std::span<const PipelineSchedule> stages, const InstructionCost& cost,
                           int64_t message) {
  return Player(stages, cost, message).play();
}

}  // namespace ds
