#include "train/deepspeed_state.h"

#include <fmt/format.h>

#include "checkpoint/deepspeed/stored_slot.h"
#include "checkpoint/own_checkpoint.h"
#include "config/reader/fields.h"
#include "model/hf/narrowed_tensors.h"
#include "model/hf/renamed_tensors.h"
#include "optim/rule_optimizer.h"
#include "train/engine_pieces.h"
#include "train/settings/tensor_cuts.h"

namespace ds {
namespace {

using deepspeed::DeepSpeedFolder;
using deepspeed::kWeightSlot;

// What goes on from a checkpoint of ours, or a run that has some, either of which may be meant;
// empty: it is neither.
std::string way_to_resume(const FileSystem& files, const std::string& path) {
  const OwnCheckpoint own = own_checkpoint(files, path);
  switch (own.kind) {
    case OwnCheckpoint::Kind::kNone:
      return "";
    case OwnCheckpoint::Kind::kTag:
      return "--resume " + own.path;
    case OwnCheckpoint::Kind::kRoot:
    case OwnCheckpoint::Kind::kRun:
      return "--run-dir " + parent_directory(own.root);
  }
  return "";
}

void refuse_own(const FileSystem& files, const std::string& path) {
  const std::string way = way_to_resume(files, path);
  if (way.empty()) return;
  throw ConfigError(fmt::format(
      "train.resume_from: {} is of dslaunch itself, and a checkpoint of DeepSpeed is expected; {} "
      "goes on from it",
      path, way));
}

// The names of the files without those of wrappers, each with the whole one.
std::map<std::string, std::string> names_inside(const DeepSpeedFolder& folder) {
  std::vector<std::string> stored;
  for (const deepspeed::SavedParameter& parameter : folder.parameters()) {
    if (parameter.kind != deepspeed::SavedParameter::Kind::kBuffer) {
      stored.push_back(parameter.name);
    }
  }
  const size_t wrapper = wrapper_bytes(stored);
  std::map<std::string, std::string> names;
  for (const std::string& name : stored) names.emplace(name.substr(wrapper), name);
  return names;
}

}  // namespace

DeepSpeedState DeepSpeedState::open(FileSystem& files, const std::string& path) {
  refuse_own(files, path);
  return DeepSpeedState(std::make_shared<DeepSpeedFolder>(DeepSpeedFolder::open(files, path)));
}

std::string DeepSpeedState::words() const {
  const deepspeed::Progress& progress = folder_->progress();
  const int64_t tensor = progress.tensor_ranks;
  const int64_t ranks = progress.data_ranks * tensor;
  return fmt::format("DeepSpeed {}, ZeRO stage {}, {} rank{}{}", progress.version, progress.stage,
                     ranks, ranks == 1 ? "" : "s",
                     tensor == 1 ? "" : fmt::format(", tensor parallel over {}", tensor));
}

DeepSpeedFacts DeepSpeedState::facts() const {
  DeepSpeedFacts facts{
      .path = directory(), .progress = folder_->progress(), .slots = {}, .frozen = {}};
  try {
    facts.slots = folder_->slots();
  } catch (const Unsupported& why) {
    throw Unsupported(fmt::format("{}; {}", why.what(), weights_alone(directory())));
  }
  for (const deepspeed::SavedParameter& parameter : folder_->parameters()) {
    if (parameter.kind == deepspeed::SavedParameter::Kind::kFrozen) {
      facts.frozen.push_back(parameter.name);
    }
  }
  return facts;
}

void DeepSpeedState::fit(const ModelConfig& model, std::span<const ParamSpec> specs,
                         const std::vector<std::string>& slots) {
  tensors_.clear();
  join_ranks(*folder_, model, names_inside(*folder_));
  const auto add = [&](const std::string& slot, const std::string& name) {
    WeightFolder stored(std::make_shared<const NarrowedTensors>(
        std::make_shared<const deepspeed::StoredSlot>(folder_, slot)));
    tensors_.emplace(slot, HfWeights(without_wrappers(std::move(stored)), name, specs));
  };
  add(kWeightSlot, directory());
  for (const std::string& slot : slots) add(slot, fmt::format("{}, {}", directory(), slot));
}

const std::vector<std::string>& DeepSpeedState::left_out() const {
  return tensors_.at(kWeightSlot).left_out();
}

void DeepSpeedState::read(size_t index, const std::string& slot, int64_t begin,
                          Tensor& into) const {
  tensors_.at(slot).read(index, begin, into);
}

RunToGoOn run_to_go_on(const EngineOptions& options, int64_t data_ranks, std::string config) {
  const std::unique_ptr<const Optimizer> optimizer = make_optimizer(options.optimizer);
  RunToGoOn run{.optimizer = state_family(options, optimizer->family()),
                .slots = {},
                .schedule = "",
                .global_batch = options.micro_batch * options.micro_steps() * data_ranks,
                .loss_scale = options.loss_scale,
                .config = std::move(config)};
  for (const SlotSpec& slot : optimizer->slots()) run.slots.push_back(slot.name);
  std::optional<SchedulerType> schedule = options.schedule.type;
  if (schedule) run.schedule = EnumRef(schedule).name();
  return run;
}

void restore_owned(Engine& engine, const DeepSpeedState& state) {
  HostCopy through(engine.stream());
  engine.store().state().visit_owned(Visit::kRestore, [&](OwnedPart& part) {
    const auto fill = [&](const std::string& slot, const Tensor& tensor) {
      fill_fields(engine, part, tensor, through, [&](size_t index, int64_t begin, Tensor& values) {
        state.read(index, slot, begin, values);
      });
    };
    fill(kWeightSlot, part.master);
    for (size_t i = 0; i < part.specs.size(); ++i) fill(part.specs[i].name, part.slots[i]);
  });
  engine.store().state().visit_auxiliary(Visit::kRestore, begin_anew);
}

}  // namespace ds
