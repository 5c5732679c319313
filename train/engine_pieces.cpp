#include "train/engine_pieces.h"

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include "core/device/host_copy.h"
#include "core/status/failpoint.h"
#include "kernels/elementwise/elementwise.h"
#include "model/hf/weights.h"
#include "train/settings/resume_facts.h"

namespace ds {
namespace {

constexpr const char* kOptimizerState = "optimizer";

std::string family_of(Engine& engine) {
  return state_family(engine.options(), engine.optimizer().family());
}

// Slots of one name mean different things to different optimizers: Lion's exp_avg is not Adam's.
std::string another_optimizer(const CheckpointReader& reader, std::string_view family,
                              const std::string& label) {
  if (!reader.has_state(kOptimizerState)) return "";  // written before this was recorded: by Adam
  const std::string& saved = reader.state(kOptimizerState);
  if (saved == fmt::format("\"{}\"", family)) return "";
  return fmt::format(
      "{} was saved with the optimizer {}, this run has \"{}\"; keep the optimizer, or start from "
      "the weights alone: a new run directory and the exported folder as model.folder",
      label, saved, family);
}

// The fields of a part that a checkpoint has, or may have.
template <class Fields>
auto fields_of(Engine& engine, Visit what, const Fields& fields) {
  return fields | std::views::filter([&engine, what](const ShardField& field) {
           const ParamSpec& spec = engine.store().spec(field.param);
           const bool is_left_out = what == Visit::kSave && engine.options().excludes_frozen;
           return !spec.second_model && (spec.trains || !is_left_out);
         });
}

std::string piece_name(const ParamSpec& spec, const std::string& slot) {
  return spec.name + "/" + slot;
}

Region region_of(const ParamSpec& spec, const ShardField& field) {
  return spec.region(field.param_begin, field.param_begin + field.numel);
}

// State of the optimizer that is no number per weight: what is each rank's own has a row for each.
struct AuxiliaryPlace {
  std::string name;
  Shape shape;
  Region region;
};
AuxiliaryPlace place_of(Engine& engine, const AuxiliaryPart& part) {
  const int64_t numel = part.spec.numel;
  const std::string owner =
      part.spec.param < 0 ? "optimizer" : engine.store().spec(part.spec.param).name;
  AuxiliaryPlace place{.name = owner + "/" + part.spec.name, .shape = {numel}, .region = {}};
  place.region = Region::whole(place.shape);
  if (part.spec.scope == AuxiliaryScope::kOwn) {
    place.shape = {part.ranks, numel};
    place.region = Region::flat(part.rank * numel, (part.rank + 1) * numel);
  }
  return place;
}

bool has_extra(const CheckpointReader& reader, const AuxiliaryPlace& place) {
  return reader.contains(place.name) && reader.info(place.name).shape == place.shape;
}

// Files have those per gradient as of one that is not scaled. In place, without memory that no plan
// has: scales that move are powers of two, with which nothing is rounded.
enum class Scaled : uint8_t { kFromFile, kToFile };
void change_scale(Engine& engine, AuxiliaryPart& part, Scaled to) {
  const double scale = engine.scaling().scaler.scale;
  if (!part.spec.per_gradient || scale == 1) return;
  kernels::scale(part.stream, static_cast<float>(to == Scaled::kToFile ? scale : 1 / scale),
                 part.values);
}

void put_extras(Engine& engine, CheckpointWriter& writer, HostCopy& through) {
  engine.store().state().visit_auxiliary(Visit::kSave, [&](AuxiliaryPart& part) {
    const AuxiliaryPlace place = place_of(engine, part);
    change_scale(engine, part, Scaled::kToFile);
    Piece piece{.name = place.name,
                .global_shape = place.shape,
                .region = place.region,
                .data = part.values};
    // Numbers per unit are infinite where what they measure is nothing, as after a skipped step.
    if (!part.spec.per_gradient) piece.finite_as = DType::kF32;
    writer.put(piece, through);
    change_scale(engine, part, Scaled::kFromFile);
  });
}

void begin_extras_anew(Engine& engine) {
  engine.store().state().visit_auxiliary(Visit::kRestore, begin_anew);
}

std::string kind_of(const std::string& name) { return name.substr(name.rfind('/') + 1); }

// Lists the kinds of all extra state that is known anywhere.
std::vector<std::string> extra_kinds(Engine& engine) {
  std::vector<std::string> kinds = engine.store().state().extra_names();
  kinds.insert(kinds.end(), {kNearErrors, kNearErrorScales, kFarErrors, kFarErrorScales});
  return kinds;
}

// Those of the optimizer, and those of gradients' codes; empty: none.
std::string words_of(Engine& engine, const std::set<std::string>& lost) {
  if (lost.empty()) return "";
  const bool of_codes = lost.contains(kNearErrors) || lost.contains(kFarErrors);
  const std::string what = of_codes
                               ? std::string("errors of quantized gradients (zeropp_loco_param)")
                               : fmt::format("{} of the optimizer {}", fmt::join(lost, " and "),
                                             engine.optimizer().family());
  return fmt::format(
      "{} begin anew: each rank has its own, and the checkpoint is of {}; the bits are not those "
      "of a run without a stop, and convergence hardly differs",
      what, of_codes ? "other ranks or buckets" : "another number of ranks");
}

// What is not there is as at the start; returns why that is so, where it is.
std::string restore_extras(Engine& engine, CheckpointReader& reader, HostCopy& through) {
  std::set<std::string> lost, known, wanted;
  const std::vector<std::string> of_store = engine.store().state().extra_names();
  wanted.insert(of_store.begin(), of_store.end());
  engine.store().state().visit_auxiliary(Visit::kRestore, [&](AuxiliaryPart& part) {
    const AuxiliaryPlace place = place_of(engine, part);
    known.insert(place.name);
    wanted.insert(kind_of(place.name));
    if (has_extra(reader, place)) {
      reader.get(place.name, place.region, part.values, through);
      return change_scale(engine, part, Scaled::kFromFile);
    }
    begin_anew(part);
    lost.insert(kind_of(part.spec.name));
  });
  for (const std::string& name : reader.names()) {
    const std::string kind = kind_of(name);
    if (wanted.contains(kind) && !known.contains(name)) lost.insert(kind);
  }
  return words_of(engine, lost);
}

std::string some_of(std::vector<std::string> found) {
  constexpr size_t kMostNamed = 4;
  const size_t all = found.size();
  found.resize(std::min(all, kMostNamed));
  return fmt::format("{}{}", fmt::join(found, "; "),
                     all > kMostNamed ? fmt::format("; and {} more", all - kMostNamed) : "");
}

}  // namespace

std::string state_family(const EngineOptions& options, std::string_view family) {
  const std::optional<ZenflowOptions>& zenflow = options.zero.state.zenflow;
  const std::string_view how =
      !zenflow ? "" : (zenflow->overlaps ? ", zenflow with overlap_step" : ", zenflow");
  return fmt::format("{}{}", family, how);
}

bool is_elsewhere(const ParamSpec& spec, const CheckpointReader& reader) {
  return !spec.trains && !reader.contains(piece_name(spec, kMasterSlot));
}

// If a part of them is lost, the rest is still there.
bool lacks_frozen(const CheckpointReader& reader, std::span<const ParamSpec> specs) {
  bool lacks = false;
  for (const ParamSpec& spec : specs) {
    if (spec.trains) continue;
    if (!is_elsewhere(spec, reader)) return false;
    lacks = true;
  }
  return lacks;
}

int64_t owned_bytes(Engine& engine) {
  // The master, and state in fp32, however it is kept.
  int64_t bytes = 0;
  for (const std::vector<ShardField>& part : engine.store().state().owned_fields(Visit::kSave)) {
    for (const ShardField& field : fields_of(engine, Visit::kSave, part)) {
      const size_t slots = engine.store().state().slot_names(field.param).size();
      bytes += field.numel * narrow<int64_t>(size_of(DType::kF32) * (1 + slots));
    }
  }
  engine.store().state().visit_auxiliary(
      Visit::kSave, [&](AuxiliaryPart& part) { bytes += narrow<int64_t>(part.values.bytes()); });
  return bytes;
}

void for_each_piece(Engine& engine, Visit what,
                    const std::function<void(const std::string& name, const ParamSpec& spec,
                                             const Region& region, Tensor& data)>& take) {
  engine.store().state().visit_owned(what, [&](OwnedPart& part) {
    for (const ShardField& field : fields_of(engine, what, part.fields)) {
      const ParamSpec& spec = engine.store().spec(field.param);
      const Region region = region_of(spec, field);
      const auto pass = [&](const std::string& slot, const Tensor& tensor) {
        Tensor data = tensor.narrow(field.offset, field.numel);
        take(piece_name(spec, slot), spec, region, data);
      };
      pass(kMasterSlot, part.master);
      for (size_t i = 0; i < part.specs.size(); ++i) pass(part.specs[i].name, part.slots[i]);
    }
  });
}

void put_pieces(Engine& engine, int rank, const RunStates& states, CheckpointWriter& writer) {
  engine.require_at_edge("save");
  HostCopy through(engine.stream());
  for_each_piece(
      engine, Visit::kSave,
      [&](const std::string& name, const ParamSpec& spec, const Region& region, Tensor& data) {
        const bool is_weight = name == piece_name(spec, kMasterSlot);
        writer.put({.name = name,
                    .global_shape = spec.logical_shape(),
                    .region = region,
                    .data = data,
                    .finite_as = is_weight ? spec.dtype : DType::kF32},
                   through);
        DS_FAILPOINT("ckpt.piece_put");
      });
  put_extras(engine, writer, through);
  if (rank == 0) {
    writer.put_state("engine", fmt::format(R"({{"step": {}}})", engine.step()));
    writer.put_state(kOptimizerState, fmt::format("\"{}\"", family_of(engine)));
    if (engine.options().loss_scale.kind != LossScaling::kNone || engine.scaling().skipped > 0) {
      writer.put_state(kLossScaleState, to_text(engine.scaling()));
    }
    if (!states.facts.empty()) writer.put_state(kFactsState, states.facts);
    const auto& [steps, best] = states.notes;
    if (!steps.empty()) writer.put_state(kNoteState, steps);
    if (!best.empty()) writer.put_state(kBestState, best);
  }
}

RunNotes notes_of(const CheckpointReader& reader) {
  const auto text_of = [&](const char* state) {
    return reader.has_state(state) ? reader.state(state) : std::string();
  };
  return {.steps = text_of(kNoteState), .best = text_of(kBestState)};
}

std::string bad_state_text(int64_t step, const std::string& bad, const std::string& rest) {
  return fmt::format(
      "the weights and the optimizer's state after step {} are not all finite: {}; {}; training "
      "has "
      "diverged: lower the learning rate or set gradient_clipping, and go on from an earlier "
      "checkpoint",
      step, bad, rest);
}

std::set<int> ranks_needed(Engine& engine, const CheckpointReader& reader) {
  std::set<int> out;
  for (const std::vector<ShardField>& part : engine.store().state().owned_fields(Visit::kRestore)) {
    for (const ShardField& field : fields_of(engine, Visit::kRestore, part)) {
      const ParamSpec& spec = engine.store().spec(field.param);
      if (is_elsewhere(spec, reader)) continue;
      std::vector<std::string> tensors = engine.store().state().slot_names(field.param);
      tensors.emplace_back(kMasterSlot);
      for (const std::string& tensor : tensors) {
        out.merge(reader.ranks_holding(piece_name(spec, tensor), region_of(spec, field)));
      }
    }
  }
  engine.store().state().visit_auxiliary(Visit::kRestore, [&](AuxiliaryPart& part) {
    const AuxiliaryPlace place = place_of(engine, part);
    if (has_extra(reader, place)) out.merge(reader.ranks_holding(place.name, place.region));
  });
  return out;
}

void fill_fields(Engine& engine, const OwnedPart& part, const Tensor& tensor, HostCopy& through,
                 const ReadElements& read, WhichModel which) {
  for (const ShardField& field : part.fields) {
    const bool is_second = engine.store().spec(field.param).second_model;
    if (is_second != (which == WhichModel::kSecond)) continue;
    const size_t index = engine.store().state().index_in_model(field.param);
    const Tensor into = tensor.narrow(field.offset, field.numel);
    through.up(into, [&](int64_t first, Tensor& values) {
      read(index, field.param_begin + first, values);
    });
  }
}

void clear_slots(Engine& engine) {
  engine.store().state().visit_owned(Visit::kRestore, [&](OwnedPart& part) {
    for (size_t i = 0; i < part.slots.size(); ++i) {
      if (std::cmp_equal(i, part.seen_slot)) {
        kernels::cast(part.stream, part.master, part.slots[i]);
      } else {
        kernels::fill(part.stream, part.slots[i], part.specs[i].initial);
      }
    }
  });
  begin_extras_anew(engine);
}

std::string why_another(Engine& engine, const CheckpointReader& reader, const std::string& label) {
  if (std::string why = another_optimizer(reader, family_of(engine), label); !why.empty())
    return why;
  const StateVisitor& state = engine.store().state();
  const std::vector<ParamSpec> all = state.model_specs();
  const std::vector<std::vector<std::string>> all_slots = state.model_slot_names();
  const bool lacks = lacks_frozen(reader, all);
  std::vector<ParamSpec> specs;
  std::vector<std::vector<std::string>> slots;
  for (size_t i = 0; i < all.size(); ++i) {
    if (lacks && !all[i].trains) continue;
    specs.push_back(all[i]);
    slots.push_back(all_slots[i]);
  }
  const std::vector<std::string> trained = compare_trained(reader, specs, slots);
  if (!trained.empty()) {
    return fmt::format(
        "{} was saved with other parameters frozen: {}; put train.freeze, train.train_only and "
        "lora back, or start from the weights alone: a new run directory and the exported folder "
        "as "
        "model.folder",
        label, some_of(trained));
  }
  const std::vector<std::string> found = compare_tensors(reader, specs, slots, extra_kinds(engine));
  if (found.empty()) return "";
  return fmt::format("{} is of another model: {}; keep the model, or choose another --run-dir",
                     label, some_of(found));
}

std::string restore_pieces(Engine& engine, CheckpointReader& reader, const std::string& label) {
  HostCopy through(engine.stream());
  for_each_piece(
      engine, Visit::kRestore,
      [&](const std::string& name, const ParamSpec& spec, const Region& region, Tensor& data) {
        if (is_elsewhere(spec, reader)) return;
        const auto info = reader.info(name);
        if (info.shape != spec.logical_shape()) {
          throw ValidationError(fmt::format("{} has shape {} in {}, the model has {}", name,
                                            info.shape.to_string(), label,
                                            spec.logical_shape().to_string()));
        }
        reader.get(name, region, data, through);
        DS_FAILPOINT("load.piece_read");
      });
  engine.restore_scaling(reader.has_state(kLossScaleState)
                             ? std::optional(parse_scaling_state(reader.state(kLossScaleState)))
                             : std::nullopt);
  return restore_extras(engine, reader, through);
}

}  // namespace ds
