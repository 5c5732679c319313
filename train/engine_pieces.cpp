#include "train/engine_pieces.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/failpoint.h"
#include "model/hf/weights.h"
#include "train/resume_facts.h"

namespace ds {
namespace {

constexpr const char* kOptimizerState = "optimizer";

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

std::string piece_name(const ParamSpec& spec, const std::string& slot) {
  return spec.name + "/" + slot;
}

}  // namespace

int64_t owned_bytes(Engine& engine) {
  int64_t bytes = 0;
  for (const OwnedSlice& slice : engine.store().owned()) {
    for (const ShardField& field : slice.fields) {
      bytes += field.numel * 4 * static_cast<int64_t>(1 + slice.slots.size());
    }
  }
  return bytes;
}

void for_each_piece(Engine& engine,
                    const std::function<void(const std::string& name, const ParamSpec& spec,
                                             const Region& region, Tensor& data)>& take) {
  const std::vector<std::string> slots = engine.optimizer().slot_names();
  for (const OwnedSlice& slice : engine.store().owned()) {
    for (const ShardField& field : slice.fields) {
      const ParamSpec& spec = engine.store().spec(field.param);
      const Region region = Region::flat(field.param_begin, field.param_begin + field.numel);
      const auto pass = [&](const std::string& slot, const Tensor& tensor) {
        Tensor data = tensor.narrow(field.offset, field.numel);
        take(piece_name(spec, slot), spec, region, data);
      };
      pass("weight", slice.master);
      for (size_t i = 0; i < slots.size(); ++i) pass(slots[i], slice.slots[i]);
    }
  }
}

void put_pieces(Engine& engine, int rank, const RunStates& states, CheckpointWriter& writer) {
  for_each_piece(engine, [&](const std::string& name, const ParamSpec& spec, const Region& region,
                             Tensor& data) {
    writer.put({.name = name, .global_shape = spec.shape, .region = region, .data = data});
    DS_FAILPOINT("ckpt.piece_put");
  });
  if (rank == 0) {
    writer.put_state("engine", fmt::format(R"({{"step": {}}})", engine.step()));
    writer.put_state(kOptimizerState, fmt::format("\"{}\"", engine.optimizer().family()));
    if (!states.facts.empty()) writer.put_state(kFactsState, states.facts);
    if (!states.note.empty()) writer.put_state(kNoteState, states.note);
  }
}

std::set<int> ranks_needed(Engine& engine, const CheckpointReader& reader) {
  std::set<int> out;
  for_each_piece(engine, [&](const std::string& name, const ParamSpec&, const Region& region,
                             Tensor&) { out.merge(reader.ranks_holding(name, region)); });
  return out;
}

void clear_slots(Engine& engine) {
  for (const OwnedSlice& slice : engine.store().owned()) {
    for (const Tensor& slot : slice.slots) std::memset(slot.raw(), 0, slot.bytes());
  }
}

std::string why_another(Engine& engine, const CheckpointReader& reader, const std::string& label) {
  if (std::string why = another_optimizer(reader, engine.optimizer().family(), label); !why.empty())
    return why;
  constexpr size_t kMostNamed = 4;
  std::vector<std::string> found =
      compare_tensors(reader, specs_of(engine.store()), engine.optimizer().slot_names());
  if (found.empty()) return "";
  const size_t all = found.size();
  found.resize(std::min(all, kMostNamed));
  return fmt::format("{} is of another model: {}{}; keep the model, or choose another --run-dir",
                     label, fmt::join(found, "; "),
                     all > kMostNamed ? fmt::format("; and {} more", all - kMostNamed) : "");
}

void restore_pieces(Engine& engine, CheckpointReader& reader, const std::string& label) {
  for_each_piece(engine, [&](const std::string& name, const ParamSpec& spec, const Region& region,
                             Tensor& data) {
    const auto info = reader.info(name);
    if (info.shape != spec.shape) {
      throw ValidationError(fmt::format("{} has shape {} in {}, the model has {}", name,
                                        info.shape.to_string(), label, spec.shape.to_string()));
    }
    reader.get(name, region, data);
    DS_FAILPOINT("load.piece_read");
  });
}

}  // namespace ds
