#include "checkpoint/deepspeed/tensor_ranks.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "checkpoint/deepspeed/saved_fields.h"
#include "core/status/error.h"

namespace ds::deepspeed {

namespace {

using Kind = SavedParameter::Kind;

const SavedTensor& tensor_of(const ModelPart& rank, const TensorsByName& tensors,
                             const std::string& name) {
  const auto found = tensors.find(name);
  if (found != tensors.end()) return found->second;
  throw DataError(fmt::format("{}: has no {}, which other ranks have", rank.model->path(), name));
}

const TensorsByName& slot_of(const ModelPart& rank, const std::string& slot) {
  const auto found = rank.table.slots.find(slot);
  if (found != rank.table.slots.end()) return found->second;
  throw DataError(fmt::format("{}: its optimizer keeps no {}, which those of other ranks do",
                              rank.model->path(), slot));
}

// The tensor of all ranks. `slot`: empty for weights.
SavedTensor joined(std::span<const ModelPart> ranks, const std::string& name,
                   const std::string& slot, const JoinOf& join) {
  JoinedTensor whole{.name = name, .join = {}, .ranks = {}};
  std::vector<Extents> shapes;
  for (const ModelPart& rank : ranks) {
    const TensorsByName& tensors = slot.empty() ? rank.table.weights : slot_of(rank, slot);
    whole.ranks.push_back(tensor_of(rank, tensors, name));
    shapes.push_back(whole.ranks.back().shape);
    if (whole.ranks.back().dtype.name == whole.ranks.front().dtype.name) continue;
    throw DataError(fmt::format("{}: {} is {}, but {} in {}", rank.model->path(), name,
                                whole.ranks.back().dtype.name, whole.ranks.front().dtype.name,
                                ranks.front().model->path()));
  }
  try {
    whole.join = join(name, shapes);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{} and the files of other ranks: {}: {}",
                                ranks.front().model->path(), name, error.what()));
  }
  const TorchDType dtype = whole.ranks.front().dtype;
  if (whole.join.is_mean && dtype.name != "float32") {
    throw Unsupported(
        fmt::format("{}: {} is the mean of its ranks' {}, which is made of fp32 alone",
                    ranks.front().model->path(), name, dtype.name));
  }
  const Extents shape = whole.join.shape;
  return {.dtype = dtype,
          .shape = shape,
          .joined = std::make_shared<const JoinedTensor>(std::move(whole))};
}

void require_names(std::span<const ModelPart> ranks) {
  const TensorsByName& first = ranks.front().table.weights;
  for (const ModelPart& rank : ranks) {
    for (const auto& [name, tensor] : rank.table.weights) {
      if (first.contains(name)) continue;
      throw DataError(fmt::format("{}: has {}, which {} has not", rank.model->path(), name,
                                  ranks.front().model->path()));
    }
  }
}

// The name of another rank's file like this one: "DIR/mp_rank_01_model_states.pt".
std::string path_of_rank(std::string path, int64_t rank) {
  constexpr std::string_view kFront = "mp_rank_";
  const size_t at = path.rfind(kFront);
  if (at == std::string::npos) return path;
  const size_t begin = at + kFront.size();
  return path.replace(begin, path.find('_', begin) - begin, fmt::format("{:02}", rank));
}

}  // namespace

void require_all_parts(std::span<const ModelPart> parts, int64_t of_stage) {
  for (const ModelPart& part : parts) {
    const int64_t count = SavedFields(*part.model).optional_integer("mp_world_size").value_or(1);
    if (count <= std::ssize(parts)) continue;
    std::string what = fmt::format("{} tensor-parallel ranks", of_stage > 0 ? of_stage : count);
    if (of_stage > 0) {
      const std::string stages = fmt::format("a pipeline of {} stages", count / of_stage);
      what = of_stage == 1 ? stages : fmt::format("{} with {}", stages, what);
    }
    throw InputMissing(fmt::format("{}: is missing; the checkpoint is of {}",
                                   path_of_rank(part.model->path(), std::ssize(parts)), what));
  }
}

SavedTable joined_ranks(std::span<const ModelPart> ranks, const JoinOf& join) {
  require_one_run(ranks);
  require_names(ranks);
  const SavedTable& first = ranks.front().table;
  SavedTable whole;
  whole.progress = first.progress;
  for (const ModelPart& rank : ranks) {
    if (rank.table.progress.rate != first.progress.rate) whole.progress.rate.reset();
    if (whole.why_no_slots.empty()) whole.why_no_slots = rank.table.why_no_slots;
  }
  for (const SavedParameter& parameter : first.parameters) {
    whole.parameters.push_back(parameter);
    const std::string& name = parameter.name;
    if (parameter.kind == Kind::kBuffer) {
      whole.weights.emplace(name, first.weights.at(name));
    } else if (parameter.kind == Kind::kShared && whole.weights.contains(parameter.owner)) {
      const SavedTensor same = whole.weights.at(parameter.owner);
      whole.weights.emplace(name, same);
    } else {
      whole.weights.emplace(name, joined(ranks, name, "", join));
    }
  }
  if (!whole.why_no_slots.empty()) return whole;
  for (const auto& [slot, tensors] : first.slots) {
    for (const auto& [name, tensor] : tensors) {
      whole.slots[slot].emplace(name, joined(ranks, name, slot, join));
    }
  }
  return whole;
}

}  // namespace ds::deepspeed
