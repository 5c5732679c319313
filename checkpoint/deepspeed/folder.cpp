#include "checkpoint/deepspeed/folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/deepspeed/cut_rules.h"
#include "checkpoint/deepspeed/folder_files.h"
#include "checkpoint/deepspeed/pipeline_table.h"
#include "checkpoint/deepspeed/tensor_ranks.h"
#include "core/status/error.h"

namespace ds::deepspeed {

namespace {

std::vector<std::string> names_in(const FileSystem& files, const std::string& folder) {
  if (!files.exists(folder)) {
    throw InputMissing(fmt::format("{}: there is no such folder", folder));
  }
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : files.list(folder)) names.push_back(entry.name);
  return names;
}

constexpr int64_t kLongestTag = 4096;

// What `latest` names, or for universal folders `latest_universal`.
std::string latest_in(FileSystem& files, const std::string& folder) {
  for (const char* name : {"latest", "latest_universal"}) {
    const std::string path = join_path(folder, name);
    if (!files.exists(path)) continue;
    return tag_of(path, files.read_text(path, kLongestTag));
  }
  throw InputMissing(
      fmt::format("{}: has neither a checkpoint of DeepSpeed nor the file latest, "
                  "which names one; give the folder of the checkpoint",
                  folder));
}

std::string directory_of(FileSystem& files, const std::string& path,
                         const std::optional<std::string>& tag) {
  if (tag) return join_path(path, tag_of(path, *tag));
  if (is_checkpoint(names_in(files, path))) return path;
  return join_path(path, latest_in(files, path));
}

constexpr const char* kWholeOptimizer = "optimizer_state.pt";

// zero/NAME/STATE.pt; files of the folder zero itself are of the whole optimizer.
std::vector<UniversalParameter> open_universal(const FileSystem& files,
                                               const std::string& directory, OpenFiles& opened) {
  const std::string folder = join_path(directory, "zero");
  std::vector<UniversalParameter> parameters;
  for (const DirectoryEntry& entry : files.list(folder)) {
    if (entry.kind != DirectoryEntry::Kind::kDirectory) continue;
    UniversalParameter& parameter = parameters.emplace_back(UniversalParameter{entry.name, {}});
    const std::string of_parameter = join_path(folder, entry.name);
    for (const std::string& name : names_in(files, of_parameter)) {
      if (!name.ends_with(".pt")) continue;
      opened.push_back(
          std::make_unique<const TorchFile>(TorchFile::open(join_path(of_parameter, name))));
      parameter.states.emplace(name.substr(0, name.size() - 3), opened.back().get());
    }
  }
  return parameters;
}

}  // namespace

SavedTable DeepSpeedFolder::universal(const FileSystem& files, const FolderFiles& names) {
  const OpenFiles& model = open(names.parts.front().model);
  const std::vector<UniversalParameter> parameters =
      open_universal(files, directory_, opened_.emplace_back());
  SavedTable table = universal_table(*model.front(), parameters);
  const std::string whole = join_path(join_path(directory_, "zero"), kWholeOptimizer);
  if (files.exists(whole)) {
    const TorchFile file = TorchFile::open(whole);
    table.progress.rate = rate_of(SavedFields(file));
  }
  return table;
}

SavedTable DeepSpeedFolder::stage(const RankFiles& names) {
  const OpenFiles& optimizer = open(names.optimizer);
  if (!optimizer.empty()) {
    require_ranks(directory_, names, optimizer_states_of(*optimizer.front()).partitions);
  }
  const OpenFiles& model = open(names.model);
  return optimizer.empty() ? plain_table(*model.front()) : zero_table(model, optimizer);
}

std::vector<ModelPart> DeepSpeedFolder::ranks_of(const FolderFiles& names) {
  std::vector<ModelPart> parts;
  for (const RankFiles& own : names.parts) {
    SavedTable table = stage(own);
    parts.push_back({std::move(table), opened_.back().front().get()});
  }
  require_all_parts(parts, std::ssize(names.layers));
  if (names.layers.empty()) return parts;
  std::vector<ModelPart> ranks;
  for (size_t rank = 0; rank < names.layers.size(); ++rank) {
    std::vector<ModelPart> stages;
    for (size_t at = rank; at < parts.size(); at += names.layers.size()) {
      stages.push_back(std::move(parts[at]));
    }
    std::vector<const TorchFile*> layers;
    for (const auto& file : open(names.layers[rank])) layers.push_back(file.get());
    const TorchFile* const model = stages.front().model;
    ranks.push_back({pipeline_table(std::move(stages), layers), model});
  }
  return ranks;
}

namespace {

// Names and progress, of what cannot be joined yet.
SavedTable table_to_join(const SavedTable& first) {
  SavedTable table;
  table.parameters = first.parameters;
  table.progress = first.progress;
  table.why_no_slots = first.why_no_slots;
  for (const auto& [slot, tensors] : first.slots) table.slots[slot];
  return table;
}

// Whether a linear layer of Megatron's has a gate before what is gated: it makes twice as much as
// the one behind it takes.
bool is_gated(const TensorsByName& weights, const std::string& name) {
  constexpr std::string_view kUp = "dense_h_to_4h.";
  const size_t at = name.rfind(kUp);
  if (at == std::string::npos) return false;
  const std::string front = name.substr(0, at);
  const auto up = weights.find(front + "dense_h_to_4h.weight");
  const auto down = weights.find(front + "dense_4h_to_h.weight");
  return up != weights.end() && down != weights.end() && down->second.shape.size() == 2 &&
         !up->second.shape.empty() && up->second.shape[0] == 2 * down->second.shape[1];
}

bool has_names_of_megatron(const SavedTable& table) {
  return std::ranges::any_of(table.parameters, [](const SavedParameter& parameter) {
    return tells_of_megatron(parameter.name);
  });
}

}  // namespace

void DeepSpeedFolder::take_ranks(const FolderFiles& names) {
  std::vector<ModelPart> ranks = ranks_of(names);
  const SavedFields model(*ranks.front().model);
  if (const TorchValue* version = model.find("checkpoint_version")) {
    version_ = number_of(model.file(), *version);
  }
  if (ranks.size() == 1) {
    table_ = std::move(ranks.front().table);
    return;
  }
  for (ModelPart& rank : ranks) rank.table.progress.tensor_ranks = std::ssize(ranks);
  const SavedTable& first = ranks.front().table;
  if (const auto rules = CutRules::of(model)) {
    table_ = joined_ranks(ranks, [&](const std::string& name, std::span<const Extents> shapes) {
      return join_of(rules->of(name), shapes);
    });
  } else if (has_names_of_megatron(first)) {
    table_ = joined_ranks(ranks, [&](const std::string& name, std::span<const Extents> shapes) {
      const MegatronFacts facts{.version = version_.value_or(0),
                                .is_gated = is_gated(first.weights, name)};
      return join_of(megatron_rule(name, facts), shapes);
    });
  } else {
    table_ = table_to_join(first);
    unjoined_ = std::move(ranks);
    needs_cuts_ = true;
  }
}

void DeepSpeedFolder::join(
    const std::function<std::optional<FamilyCut>(const std::string& name)>& cut_of) {
  if (!needs_cuts_) return;
  table_ = joined_ranks(unjoined_, [&](const std::string& name, std::span<const Extents> shapes) {
    const std::optional<FamilyCut> cut = cut_of(name);
    return cut ? join_of(*cut, shapes) : join_of(CutRule{.kind = CutRule::Kind::kSame}, shapes);
  });
  unjoined_.clear();
  needs_cuts_ = false;
}

const OpenFiles& DeepSpeedFolder::open(const std::vector<std::string>& names) {
  OpenFiles& files = opened_.emplace_back();
  for (const std::string& name : names) {
    files.push_back(
        std::make_unique<const TorchFile>(TorchFile::open(join_path(directory_, name))));
  }
  return files;
}

DeepSpeedFolder DeepSpeedFolder::open(FileSystem& files, const std::string& path,
                                      const std::optional<std::string>& tag) {
  DeepSpeedFolder folder;
  folder.directory_ = directory_of(files, path, tag);
  const FolderFiles names = files_of(folder.directory_, names_in(files, folder.directory_));
  if (names.is_universal) {
    folder.table_ = folder.universal(files, names);
  } else {
    folder.take_ranks(names);
  }
  return folder;
}

std::vector<std::string> DeepSpeedFolder::slots() const {
  if (!table_.why_no_slots.empty()) throw Unsupported(table_.why_no_slots);
  std::vector<std::string> slots;
  for (const auto& [slot, tensors] : table_.slots) slots.push_back(slot);
  return slots;
}

const TensorsByName& DeepSpeedFolder::tensors(const std::string& slot) const {
  if (needs_cuts_) {
    throw Unsupported(
        fmt::format("{}: no file says how its {} tensor-parallel ranks cut their tensors "
                    "(universal_checkpoint_info), and the model that they are of is not known",
                    directory_, progress().tensor_ranks));
  }
  if (slot == kWeightSlot) return table_.weights;
  if (!table_.why_no_slots.empty()) throw Unsupported(table_.why_no_slots);
  const auto found = table_.slots.find(slot);
  if (found == table_.slots.end()) {
    throw DataError(fmt::format("{}: its optimizer keeps no {}", directory_, slot));
  }
  return found->second;
}

const SavedTensor& DeepSpeedFolder::tensor(const std::string& name, const std::string& slot) const {
  const TensorsByName& all = tensors(slot);
  const auto found = all.find(name);
  if (found == all.end()) {
    throw DataError(fmt::format("{}: has no {} of {}", directory_, slot, name));
  }
  return found->second;
}

}  // namespace ds::deepspeed
