#include "train/beginning.h"

#include "core/files/input_files.h"
#include "core/values/index.h"
#include "model/hf/adapter_weights.h"
#include "model/pass/initializer.h"
#include "train/deepspeed_state.h"
#include "train/engine_pieces.h"
#include "train/starting_magnitudes.h"

namespace ds {
namespace {

void load_folder(Engine& engine, FileSystem& files, const std::string& folder) {
  const std::vector<ParamSpec> specs = engine.store().state().model_specs();
  const AbsentModules absent = absent_modules(engine.options().model);
  const auto& adapters = engine.options().model.adapters;
  const AdaptedWeights weights(files, folder, specs, absent,
                               adapters ? adapters->folder : std::nullopt);
  std::optional<StartingMagnitudes> magnitudes;
  if (adapters && adapters->has_magnitudes && !adapters->folder) {
    magnitudes.emplace(files, folder, engine.options().model,
                       engine.options().zero.layout.base_code);
  }
  HostCopy through(engine.stream());
  engine.store().state().visit_owned(Visit::kRestore, [&](OwnedPart& part) {
    fill_fields(engine, part, part.master, through,
                [&](size_t index, int64_t begin, Tensor& values) {
                  if (weights.is_stored(index)) {
                    weights.read(index, begin, values);
                  } else if (magnitudes && is_magnitude(nth(specs, index).name)) {
                    magnitudes->read(nth(specs, index), begin, values);
                  } else {
                    initialize(nth(specs, index), engine.options().seed, begin, values);
                  }
                });
  });
  engine.store().state().restore_from_owned();
}

// `latest` may be written between the looks of two ranks.
void require_one_directory(HostExchange& host, const std::string& directory) {
  const auto all = host.gather_lists(std::vector<char>(directory.begin(), directory.end()));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw ValidationError(
        fmt::format("train.resume_from: rank 0 sees the checkpoint {}, and rank {} sees {}; name "
                    "the folder of one",
                    std::string(all[0].begin(), all[0].end()), rank,
                    std::string(all[rank].begin(), all[rank].end())));
  }
}

// All ranks have the same of it.
void require_may(const Continuation& next, Changes changes, const std::string& directory) {
  if (!next.refusal.empty()) throw ValidationError(next.refusal);
  if (next.changes.empty() || changes == Changes::kAccepted) return;
  throw ValidationError(fmt::format(
      "{} was saved by a run with other settings: {}; training would not go on as if it had never "
      "stopped. Put them back, or go on all the same with --accept-changes",
      directory, fmt::join(next.changes, "; ")));
}

std::vector<std::string> notices_of(const Continuation& next, const DeepSpeedState& state) {
  std::vector<std::string> notices;
  const auto note = [&](const std::string& text) {
    notices.push_back(fmt::format("note: {}: {}", state.directory(), text));
  };
  for (const std::vector<std::string>& list : {next.changes, next.notes}) {
    if (!list.empty()) note(fmt::format("{}", fmt::join(list, "; ")));
  }
  if (!state.left_out().empty()) {
    note(fmt::format("{} are left out", fmt::join(state.left_out(), ", ")));
  }
  note(kNeverGoneOnWith);
  notices.push_back(
      fmt::format("resumed step={} from={} ({})", next.step, state.directory(), state.words()));
  return notices;
}

Begun begin_from_deepspeed(Engine& engine, FileSystem& files, const Beginning& from) {
  DeepSpeedState state = DeepSpeedState::open(files, *from.resume_from);
  require_one_directory(engine.host(), state.directory());
  const RunToGoOn run =
      run_to_go_on(engine.options(), engine.mesh().size(Axis::kData), from.config);
  const Continuation next = continuation_of(state.facts(), run);
  require_may(next, from.changes, state.directory());
  state.fit(engine.options().model, engine.store().state().model_specs(), run.slots);
  restore_owned(engine, state);
  engine.restore_scaling(
      ScalingState{.skipped = next.skipped,
                   .scaler = next.scaler.value_or(first_state(engine.options().loss_scale))});
  engine.store().state().restore_from_owned();
  return {.step = next.step, .origin = state.directory(), .notices = notices_of(next, state)};
}

}  // namespace

void load_frozen(Engine& engine, FileSystem& files, const std::string& folder) {
  InputFiles inputs(files);
  const std::vector<ParamSpec> specs = engine.store().state().model_specs();
  const HfWeights weights(inputs, folder, specs, absent_modules(engine.options().model));
  HostCopy through(engine.stream());
  engine.store().state().visit_frozen([&](OwnedPart& part) {
    fill_fields(
        engine, part, part.master, through,
        [&](size_t index, int64_t begin, Tensor& values) { weights.read(index, begin, values); });
  });
}

Begun begin_training(Engine& engine, FileSystem& files, const Beginning& from) {
  InputFiles inputs(files);
  if (from.resume_from) return begin_from_deepspeed(engine, inputs, from);
  if (from.folder) {
    load_folder(engine, inputs, *from.folder);
  } else {
    engine.initialize();
  }
  return {.step = 0, .origin = "the beginning"};
}

}  // namespace ds
