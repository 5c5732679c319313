// Pipeline schedules: golden lists that a person can follow, and the laws that every schedule
// keeps.
#include "model/parallel/pipeline_schedule.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/status/error.h"
#include "model/parallel/pipeline_timing.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

using Kind = PipelineKind;

const std::map<std::string, Kind> kKinds = {{"inference", Kind::kInference},
                                            {"data_parallel", Kind::kDataParallel},
                                            {"gpipe", Kind::kGpipe},
                                            {"1f1b", Kind::k1F1B},
                                            {"interleaved", Kind::kInterleaved},
                                            {"zb_h1", Kind::kZeroBubbleH1},
                                            {"zb_v", Kind::kZeroBubbleV}};

std::vector<PipelineSchedule> all_stages(Kind kind, const PipelineShape& shape) {
  std::vector<PipelineSchedule> stages;
  for (int s = 0; s < shape.stages; ++s) stages.push_back(pipeline_schedule(kind, shape, s));
  return stages;
}

std::string short_name(const PipelineInstruction& i) {
  const std::string chunk = i.chunk > 0 ? "'" : "";
  switch (i.op) {
    case PipelineOp::kForwardPass:
      return fmt::format("F{}{}", i.micro_batch, chunk);
    case PipelineOp::kBackwardPass:
      return fmt::format("BW{}{}", i.micro_batch, chunk);
    case PipelineOp::kBackwardInput:
      return fmt::format("B{}{}", i.micro_batch, chunk);
    case PipelineOp::kBackwardWeight:
      return fmt::format("W{}{}", i.micro_batch, chunk);
    default:
      return "";
  }
}

// Commands: "order KIND micro_batches stages chunks" shows the work of every stage and its time
// with equal costs; "list KIND micro_batches stages stage" shows one stage's instructions.
std::string answer(const std::string& command) {
  char verb[16] = {}, name[32] = {};
  int micros = 0, stages = 0, third = 0;
  if (std::sscanf(command.c_str(), "%15s %31s %d %d %d", verb, name, &micros, &stages, &third) != 5)
    return "bad";
  const Kind kind = kKinds.at(name);
  std::string text;
  if (std::string(verb) == "list") {
    const auto schedule =
        pipeline_schedule(kind, {.micro_batches = micros, .stages = stages}, third);
    text = fmt::format("{} buffers\n", schedule.buffer_count);
    for (size_t t = 0; t < schedule.steps.size(); ++t) {
      text += fmt::format("{}:", t);
      for (const auto& i : schedule.steps[t]) {
        text += " " + to_string(i) + (i.peer >= 0 ? fmt::format("@{}", i.peer) : "");
      }
      text += "\n";
    }
    return text;
  }
  const auto schedules =
      all_stages(kind, {.micro_batches = micros, .stages = stages, .chunks = third});
  const PipelineTime time = time_pipeline(schedules, {});
  for (size_t s = 0; s < schedules.size(); ++s) {
    text += fmt::format("{}:", s);
    for (const auto& step : schedules[s].steps) {
      for (const auto& i : step) {
        if (const std::string name_of = short_name(i); !name_of.empty()) text += " " + name_of;
      }
    }
    text += fmt::format(" | {}..{} idle {} held {}\n", time.stages[s].start, time.stages[s].end,
                        time.stages[s].idle_inside(), time.stages[s].activations_peak);
  }
  return text;
}

TEST_CASE("schedules that a person can follow", "[model]") {
  testing::run_golden("pipeline_schedule.txt", answer);
}

// Every micro-batch and chunk: forward before backward, B before W, each exactly once; slots never
// shared.
void check_stage(const PipelineSchedule& schedule, const PipelineShape& shape, bool trains,
                 bool splits) {
  std::map<std::pair<int, int>, int> seen;  // 1 forward, 2 B or both, 3 W
  std::map<int, std::pair<int, int>> holder;
  for (const auto& step : schedule.steps) {
    for (const auto& i : step) {
      const std::pair key{i.chunk, i.micro_batch};
      if (i.buffer >= 0) CHECK(i.buffer < schedule.buffer_count);
      if (i.op == PipelineOp::kForwardPass) {
        CHECK(++seen[key] == 1);
        if (trains) CHECK(holder.emplace(i.buffer, key).second);
      } else if (i.op == PipelineOp::kBackwardPass || i.op == PipelineOp::kBackwardInput) {
        CHECK(++seen[key] == 2);
        CHECK(holder.at(i.buffer) == key);
      } else if (i.op == PipelineOp::kBackwardWeight) {
        CHECK(++seen[key] == 3);
        CHECK(holder.at(i.buffer) == key);
      }
      if (i.op == PipelineOp::kBackwardPass || i.op == PipelineOp::kBackwardWeight)
        holder.erase(i.buffer);
    }
  }
  const int last = !trains ? 1 : splits ? 3 : 2;
  CHECK(seen.size() == static_cast<size_t>(shape.micro_batches * shape.chunks));
  for (const auto& [key, count] : seen) CHECK(count == last);
}

TEST_CASE("every schedule keeps the order of work and never deadlocks", "[model]") {
  for (const auto& [name, kind] : kKinds) {
    for (int stages = 1; stages <= 6; ++stages) {
      if (kind == Kind::kDataParallel && stages > 1) continue;
      for (int micros = 1; micros <= 14; ++micros) {
        PipelineShape shape{.micro_batches = micros, .stages = stages};
        if (kind == Kind::kZeroBubbleV) shape.chunks = 2;
        if (kind == Kind::kInterleaved) shape.chunks = micros % stages == 0 ? 3 : 1;
        INFO(name << " micro-batches " << micros << " stages " << stages);
        const auto schedules = all_stages(kind, shape);
        const bool splits = kind == Kind::kZeroBubbleH1 || kind == Kind::kZeroBubbleV;
        for (const auto& schedule : schedules)
          check_stage(schedule, shape, kind != Kind::kInference, splits);
        CHECK_NOTHROW(time_pipeline(
            schedules, {.forward = 3, .backward_input = 2, .backward_weight = 4, .message = 1}));
      }
    }
  }
}

TEST_CASE("bubbles are as the theory says", "[model]") {
  for (const int p : {2, 3, 4, 8}) {
    for (const int m : {2 * p, 3 * p, 5 * p}) {
      INFO("stages " << p << " micro-batches " << m);
      const PipelineShape plain{.micro_batches = m, .stages = p};
      // F = 1, B + W = 2: both pay p - 1 times a whole micro-batch.
      CHECK(time_pipeline(all_stages(Kind::kGpipe, plain), {}).makespan == 3 * (m + p - 1));
      CHECK(time_pipeline(all_stages(Kind::k1F1B, plain), {}).makespan == 3 * (m + p - 1));
      // Interleaving divides the bubble by the number of chunks (a chunk costs a v-th of a stage).
      const PipelineShape interleaved{.micro_batches = m, .stages = p, .chunks = 4};
      CHECK(time_pipeline(all_stages(Kind::kInterleaved, interleaved), {}).makespan ==
            3 * (4 * m + p - 1));
      // ZB-H1: (p - 1) (F + B - W).
      CHECK(time_pipeline(all_stages(Kind::kZeroBubbleH1, plain), {}).makespan == 3 * m + (p - 1));
      const PipelineShape v{.micro_batches = m, .stages = p, .chunks = 2};
      for (const auto& stage : time_pipeline(all_stages(Kind::kZeroBubbleV, v), {}).stages) {
        CHECK(stage.idle_inside() == 0);
        CHECK(stage.busy == 6 * m);
      }
    }
  }
}

TEST_CASE("activations held are as the theory says", "[model]") {
  const int p = 4, m = 16;
  const auto held = [&](Kind kind, int chunks) {
    std::vector<int64_t> peaks;
    const auto schedules = all_stages(kind, {.micro_batches = m, .stages = p, .chunks = chunks});
    for (const auto& stage : time_pipeline(schedules, {}).stages)
      peaks.push_back(stage.activations_peak);
    return peaks;
  };
  CHECK(held(Kind::kGpipe, 1) == std::vector<int64_t>(4, m));
  CHECK(held(Kind::k1F1B, 1) == std::vector<int64_t>{4, 3, 2, 1});
  CHECK(held(Kind::kZeroBubbleH1, 1) == std::vector<int64_t>(4, p));
  CHECK(held(Kind::kZeroBubbleV, 2) == std::vector<int64_t>(4, 2 * p));  // half as large each
}

TEST_CASE("a forward pass alone goes through all chunks, and needs no schedule's rounds",
          "[model]") {
  for (const auto& [kind, chunks] :
       {std::pair{Kind::k1F1B, 1}, {Kind::kInterleaved, 3}, {Kind::kZeroBubbleV, 2}}) {
    for (const int p : {1, 2, 4}) {
      INFO(to_string(kind) << " stages " << p);
      const PipelineShape shape{.micro_batches = 3, .stages = p, .chunks = chunks};
      std::vector<PipelineSchedule> stages;
      for (int s = 0; s < p; ++s) stages.push_back(forward_schedule(kind, shape, s));
      for (const auto& schedule : stages) check_stage(schedule, shape, false, false);
      CHECK_NOTHROW(time_pipeline(stages, {}));
      const auto is_update = [](const PipelineInstruction& i) { return i.buffer < 0; };
      for (const auto& step : stages.front().steps) CHECK(std::ranges::none_of(step, is_update));
    }
  }
  CHECK_THROWS_AS(forward_schedule(Kind::kZeroBubbleV, {.chunks = 1}, 0), ConfigError);
}

TEST_CASE("stages that take unequally long wait for the slowest", "[model]") {
  const auto schedules = all_stages(Kind::k1F1B, {.micro_batches = 4, .stages = 2});
  const auto cost = [](int stage, const PipelineInstruction& work) -> int64_t {
    return (stage == 1 ? 5 : 1) * (work.op == PipelineOp::kForwardPass ? 1 : 2);
  };
  const PipelineTime time = time_pipeline(schedules, cost, 0);
  CHECK(time.stages[1].busy == 4 * 15);
  CHECK(time.stages[0].busy == 4 * 3);
  CHECK(time.makespan == 1 + 4 * 15 + 2);
}

TEST_CASE("a schedule that waits for itself is found", "[model]") {
  auto schedules = all_stages(Kind::k1F1B, {.micro_batches = 2, .stages = 2});
  for (auto& step : schedules[0].steps) {
    std::erase_if(step, [](const auto& i) { return i.op == PipelineOp::kSendActivation; });
  }
  CHECK_THROWS_WITH(time_pipeline(schedules, {}),
                    Catch::Contains("RecvGrad") || Catch::Contains("RecvActivation"));
}

TEST_CASE("impossible pipelines are refused", "[model]") {
  CHECK_THROWS_AS(pipeline_schedule(Kind::k1F1B, {.micro_batches = 0}, 0), ConfigError);
  CHECK_THROWS_AS(pipeline_schedule(Kind::k1F1B, {.micro_batches = 1, .stages = 2}, 2),
                  ConfigError);
  CHECK_THROWS_AS(pipeline_schedule(Kind::k1F1B, {.chunks = 2}, 0), ConfigError);
  CHECK_THROWS_AS(pipeline_schedule(Kind::kZeroBubbleV, {.chunks = 1}, 0), ConfigError);
  CHECK_THROWS_AS(
      pipeline_schedule(Kind::kInterleaved, {.micro_batches = 5, .stages = 2, .chunks = 2}, 0),
      ConfigError);
}

}  // namespace
}  // namespace ds
