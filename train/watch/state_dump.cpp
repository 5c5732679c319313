#include "train/watch/state_dump.h"

#include <fmt/format.h>

#include "config/config.h"
#include "config/reader/enum_name.h"
#include "core/values/number_text.h"
#include "train/watch/step_breakdown.h"

namespace ds {
namespace {

class Lines {
 public:
  template <class Value>
  void add(std::string_view name, const Value& value) {
    constexpr int kDots = 32;
    lines.push_back(fmt::format("  {:.<{}} {}", std::string(name) + " ", kDots, value));
  }
  std::vector<std::string> lines;
};

std::string placed(const Placement& placement) {
  return fmt::format("{} on {}", placement.sharding == Sharding::kWhole ? "whole" : "sharded",
                     name_of(placement.tier));
}

int64_t parameters_of(const StateVisitor& state) {
  int64_t numel = 0;
  for (const ParamSpec& spec : state.model_specs()) numel += spec.logical_shape().numel();
  return numel;
}

}  // namespace

std::vector<std::string> state_lines(Engine& engine, const Workspace& workspace) {
  const EngineOptions& options = engine.options();
  const ModelDimensions dims = dimensions(options.model);
  const int ranks = engine.host().size();
  Lines out;
  out.lines.emplace_back("state of the engine:");
  out.add("step", engine.step());
  out.add("ranks", ranks);
  out.add("device", engine.device().to_string());
  out.add("number type", name_of(options.dtype));
  out.add("parameters",
          parameter_count_text(static_cast<double>(parameters_of(engine.store().state()))));
  out.add("layers, width, heads", fmt::format("{}, {}, {}", dims.layers, dims.width, dims.heads));
  out.add("vocabulary", dims.vocabulary);
  out.add("micro-batch per rank", options.micro_batch);
  out.add("micro-steps per step", options.micro_steps());
  const int data = engine.mesh().size(Axis::kData);
  out.add("global batch", options.micro_batch * options.micro_steps() * data);
  out.add("sequence length", options.length);
  for (const auto& [axis, what] : {std::pair{Axis::kSequence, "ranks for each sequence"},
                                   std::pair{Axis::kTensor, "ranks for each layer"},
                                   std::pair{Axis::kPipe, "stages of the pipeline"}}) {
    if (engine.mesh().size(axis) > 1) out.add(what, engine.mesh().size(axis));
  }
  out.add("weights", placed(options.zero.placement.policy.params));
  out.add("gradients", placed(options.zero.placement.policy.grads));
  out.add("optimizer state", placed(options.zero.placement.policy.state));
  out.add("optimizer", options.optimizer.type ? enum_name(*options.optimizer.type) : "none");
  out.add("learning rate", learning_rate(options.optimizer));
  out.add("schedule", options.schedule.type ? enum_name(*options.schedule.type) : "none");
  out.add("gradient clipping", options.gradient_clipping);
  out.add("seed", options.seed);
  out.add("groups of parameters", engine.store().groups().size());
  out.add("buckets", engine.store().gathers().buckets());
  out.add("results come late by", engine.results_late());
  out.lines.push_back("  " + memory_line(workspace.usage()));
  return out.lines;
}

}  // namespace ds
