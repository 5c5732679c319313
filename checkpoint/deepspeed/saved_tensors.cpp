#include "checkpoint/deepspeed/saved_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "checkpoint/deepspeed/model_states.h"
#include "checkpoint/deepspeed/optimizer_states.h"
#include "checkpoint/deepspeed/places.h"
#include "core/files/file.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::deepspeed {

using Kind = SavedParameter::Kind;

SavedTensor whole_tensor(const TorchFile& file, const TorchTensor& tensor) {
  return {.dtype = tensor.dtype,
          .shape = tensor.shape,
          .runs = {{.file = &file, .tensor = &tensor, .first = 0, .numel = tensor.numel()}}};
}

int64_t SavedTensor::numel() const {
  int64_t all = 0;
  if (joined) return numel_of({.name = joined->name, .shape = shape});
  for (const SavedRun& run : runs) all += run.numel;
  return all;
}

namespace {

void add(SavedTable& table, const std::string& name, Kind kind, SavedTensor tensor,
         const TorchFile& file) {
  if (!table.weights.emplace(name, std::move(tensor)).second) {
    throw DataError(fmt::format("{}: has the parameter {} twice", file.path(), name));
  }
  table.parameters.push_back({name, kind});
}

void add_shared(SavedTable& table, const ModelStates& states) {
  for (const auto& [name, owner] : states.shared) {
    const auto found = table.weights.find(owner);
    if (found == table.weights.end() || table.weights.contains(name)) continue;
    const SavedTensor same = found->second;
    table.weights.emplace(name, same);
    table.parameters.push_back({name, Kind::kShared, owner});
  }
}

bool is_shared(const ModelStates& states, const std::string& name) {
  return std::ranges::any_of(states.shared, [&](const auto& pair) { return pair.first == name; });
}

// What the model has and no other list names: buffers, and parameters that are not trained.
void add_rest_of_module(SavedTable& table, const TorchFile& file, const ModelStates& states) {
  for (const auto& [name, tensor] : states.module) {
    const bool is_buffer = states.buffers.contains(name);
    if (table.weights.contains(name) || is_shared(states, name)) continue;
    if (tensor->numel() == 0 && !is_buffer) continue;  // stage 3 leaves the names of parameters
    add(table, name, is_buffer ? Kind::kBuffer : Kind::kFrozen, whole_tensor(file, *tensor), file);
  }
}

// --- ZeRO

struct RankStates {
  const OpenFiles& files;
  std::vector<OptimizerStates> states{};
};

RankStates read_optimizers(const OpenFiles& files) {
  RankStates ranks{.files = files};
  for (const auto& file : files) ranks.states.push_back(optimizer_states_of(*file));
  const OptimizerStates& first = ranks.states.front();
  for (size_t r = 0; r < files.size(); ++r) {
    const OptimizerStates& own = ranks.states[r];
    const auto differs = [&](std::string_view what, const auto& mine, const auto& other) {
      if (mine == other) return;
      throw DataError(
          fmt::format("{}: {} is {}, but {} in {}; the files are of several checkpoints",
                      files[r]->path(), what, mine, other, files.front()->path()));
    };
    differs("ds_version", own.version, first.version);
    differs("zero_stage", own.stage, first.stage);
    differs("partition_count", own.partitions, first.partitions);
    differs("number of groups", own.groups.size(), first.groups.size());
    for (size_t g = 0; g < own.groups.size(); ++g) {
      differs(fmt::format("number of updates of group {}", g), own.groups[g].updates.value_or(0),
              first.groups[g].updates.value_or(0));
    }
  }
  return ranks;
}

// The beginning of a rank's weights of a group; empty if it may well be that of others, too: it is
// short, or of few numbers, as norms and biases are before they are trained.
std::vector<std::byte> sample_of(const TorchFile& file, const TorchTensor& weights) {
  constexpr int64_t kLooked = 1024, kLeastNumbers = 64;
  std::vector<std::byte> bytes(
      to_size(std::min(weights.numel(), kLooked) * int64_t{weights.dtype.size}));
  file.copy(weights, 0, bytes);
  const auto each = to_size(weights.dtype.size);
  std::set<std::string_view> numbers;
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (size_t at = 0; at < all.size(); at += each) numbers.insert(all.substr(at, each));
  if (std::ssize(numbers) < kLeastNumbers) bytes.clear();
  return bytes;
}

// No file says of which rank it is, and one that was copied under another's name fits: what it has
// are numbers that two ranks never share.
void refuse_copies(const RankStates& ranks) {
  for (size_t g = 0; g < ranks.states.front().groups.size(); ++g) {
    std::map<std::vector<std::byte>, size_t> seen;
    for (size_t r = 0; r < ranks.files.size(); ++r) {
      std::vector<std::byte> sample =
          sample_of(*ranks.files[r], *ranks.states[r].groups[g].slots.at(kWeightSlot));
      if (sample.empty()) continue;
      const auto [same, is_new] = seen.emplace(std::move(sample), r);
      if (is_new) continue;
      throw DataError(fmt::format(
          "{}: has the weights of {}; one of them is a copy, so put back the file of that rank",
          ranks.files[r]->path(), ranks.files[same->second]->path()));
    }
  }
}

// The tensor of a slot; null for an empty group, for which an optimizer may keep none.
const TorchTensor* tensor_of(const RankStates& ranks, size_t rank, size_t group,
                             const std::string& slot) {
  const auto& slots = ranks.states[rank].groups[group].slots;
  const auto found = slots.find(slot);
  if (found != slots.end()) return found->second;
  if (slots.at(kWeightSlot)->numel() == 0) return nullptr;
  throw DataError(fmt::format("{}: group {} has no {}, which others have",
                              ranks.files[rank]->path(), group, slot));
}

std::vector<PartitionSizes> sizes_of(const RankStates& ranks, const std::string& slot) {
  std::vector<PartitionSizes> sizes;
  for (size_t r = 0; r < ranks.states.size(); ++r) {
    PartitionSizes& own = sizes.emplace_back();
    for (size_t g = 0; g < ranks.states[r].groups.size(); ++g) {
      const TorchTensor* tensor = tensor_of(ranks, r, g, slot);
      own.push_back(tensor == nullptr ? 0 : tensor->numel());
    }
  }
  return sizes;
}

SavedTensor tensor_at(const RankStates& ranks, const PlacedParameter& placed,
                      const std::string& slot) {
  SavedTensor tensor{.dtype = {}, .shape = placed.parameter.shape};
  const TorchTensor* any = tensor_of(ranks, 0, 0, slot);
  if (any != nullptr) tensor.dtype = any->dtype;
  for (const PlacedRun& run : placed.runs) {
    const TorchTensor* flat = tensor_of(ranks, run.rank, run.group, slot);
    if (!tensor.runs.empty() && flat->dtype.name != tensor.dtype.name) {
      throw DataError(fmt::format("{}: {} of {} is {}, but {} in {}", ranks.files[run.rank]->path(),
                                  slot, placed.parameter.name, flat->dtype.name, tensor.dtype.name,
                                  tensor.runs.front().file->path()));
    }
    tensor.dtype = flat->dtype;
    tensor.runs.push_back({.file = ranks.files[run.rank].get(),
                           .tensor = flat,
                           .first = run.first,
                           .numel = run.numel});
  }
  return tensor;
}

// Errors of places name no file, since any of them may be short.
std::vector<PlacedParameter> placed_of(const RankStates& ranks, const ParamGroups& groups,
                                       const std::string& slot) {
  const std::vector<PartitionSizes> sizes = sizes_of(ranks, slot);
  try {
    return ranks.states.front().stage == 3 ? place_partitioned(groups, sizes)
                                           : place_flat(groups, sizes);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{} and the files of other ranks: {}: {}",
                                ranks.files.front()->path(), slot, error.what()));
  }
}

ParamGroups padded_groups(ParamGroups groups, const RankStates& ranks) {
  const std::vector<std::vector<int64_t>>& paddings = ranks.states.front().paddings;
  if (paddings.empty()) return groups;
  const auto refuse = [&] {
    throw DataError(
        fmt::format("{}: param_alignment_paddings is not for the parameters that the "
                    "file of the model lists",
                    ranks.files.front()->path()));
  };
  if (paddings.size() != groups.size()) refuse();
  for (size_t g = 0; g < groups.size(); ++g) {
    if (paddings[g].size() != groups[g].size()) refuse();
    for (size_t i = 0; i < groups[g].size(); ++i) groups[g][i].padding = paddings[g][i];
  }
  return groups;
}

std::set<std::string> slots_of(const RankStates& ranks) {
  std::set<std::string> slots;
  for (const OptimizerGroup& group : ranks.states.front().groups) {
    for (const auto& [slot, tensor] : group.slots) slots.insert(slot);
  }
  slots.erase(kWeightSlot);
  return slots;
}

// Parts of ranks, of equal sizes but for padding at the end of the last ones.
SavedTensor joined_parts(const NamedShape& parameter, const OpenFiles& files,
                         const std::vector<ModelStates>& states) {
  SavedTensor whole{.dtype = {}, .shape = parameter.shape};
  int64_t left = numel_of(parameter);
  for (size_t r = 0; r < files.size(); ++r) {
    const auto found = std::ranges::find_if(
        states[r].fragments, [&](const auto& one) { return one.first == parameter.name; });
    if (found == states[r].fragments.end()) {
      throw DataError(fmt::format("{}: has no part of the frozen parameter {}", files[r]->path(),
                                  parameter.name));
    }
    const TorchTensor* part = found->second;
    const int64_t count = std::min(left, part->numel());
    whole.dtype = part->dtype;
    if (count > 0) whole.runs.push_back({files[r].get(), part, 0, count});
    left -= count;
  }
  if (left != 0) {
    throw DataError(
        fmt::format("{}: the frozen parameter {} has {} elements, {} of them are in no "
                    "rank's file",
                    files.front()->path(), parameter.name, numel_of(parameter), left));
  }
  return whole;
}

std::vector<ModelStates> read_models(const OpenFiles& files) {
  std::vector<ModelStates> states;
  for (const auto& file : files) {
    states.push_back(model_states_of(*file));
    const Progress &own = states.back().progress, &first = states.front().progress;
    if (own.steps == first.steps && own.version == first.version) continue;
    throw DataError(fmt::format(
        "{}: is of step {} by DeepSpeed {}, but {} of step {} by {}; the "
        "files are of several checkpoints",
        file->path(), own.steps, own.version, files.front()->path(), first.steps, first.version));
  }
  return states;
}

void require_same_run(const TorchFile& model, const ModelStates& states, const TorchFile& optimizer,
                      const OptimizerStates& first) {
  if (!first.version.empty() && first.version != states.progress.version) {
    throw DataError(
        fmt::format("{}: is by DeepSpeed {}, but {} by {}; the files are of several "
                    "checkpoints",
                    optimizer.path(), first.version, model.path(), states.progress.version));
  }
  if (first.groups.empty()) {
    throw DataError(fmt::format("{}: has no group of parameters", optimizer.path()));
  }
  if (states.groups.empty()) {
    throw DataError(
        fmt::format("{}: param_shapes is missing, without which flat partitions cannot "
                    "be told apart",
                    model.path()));
  }
  if (first.stage != 3 && states.groups.size() != first.groups.size()) {
    throw DataError(fmt::format("{}: has {} groups of parameters, but {} has {}", optimizer.path(),
                                first.groups.size(), model.path(), states.groups.size()));
  }
}

}  // namespace

SavedTable zero_table(const OpenFiles& model, const OpenFiles& optimizer) {
  const std::vector<ModelStates> models = read_models(model);
  const ModelStates& states = models.front();
  const RankStates ranks = read_optimizers(optimizer);
  const OptimizerStates& first = ranks.states.front();
  require_same_run(*model.front(), states, *optimizer.front(), first);
  refuse_copies(ranks);
  SavedTable table;
  table.progress = states.progress;
  table.progress.stage = first.stage;
  table.progress.data_ranks = first.partitions;
  table.progress.scaler = first.scaler;
  table.progress.rate = first.rate;
  if (!first.groups.empty()) table.progress.updates = first.groups.front().updates;
  const ParamGroups groups = padded_groups(states.groups, ranks);
  for (const PlacedParameter& placed : placed_of(ranks, groups, kWeightSlot)) {
    add(table, placed.parameter.name, Kind::kTrained, tensor_at(ranks, placed, kWeightSlot),
        *model.front());
  }
  for (const std::string& slot : slots_of(ranks)) {
    for (const PlacedParameter& placed : placed_of(ranks, groups, slot)) {
      table.slots[slot].emplace(placed.parameter.name, tensor_at(ranks, placed, slot));
    }
  }
  for (const NamedShape& frozen : states.frozen) {
    add(table, frozen.name, Kind::kFrozen, joined_parts(frozen, model, models), *model.front());
  }
  add_rest_of_module(table, *model.front(), states);
  add_shared(table, states);
  return table;
}

// --- stage 0

namespace {

// States go by number: the place of a parameter among those that the optimizer was given, which is
// that in the model where it was given all of them.
void add_numbered_states(SavedTable& table, const TorchFile& file) {
  const SavedFields root(file);
  const std::optional<SavedFields> optimizer = root.optional_fields("optimizer");
  if (!optimizer) {
    table.why_no_slots = fmt::format("{}: has no optimizer", file.path());
    return;
  }
  if (optimizer->find("state") == nullptr) {
    table.why_no_slots =
        fmt::format("{} is that of an optimizer of DeepSpeed's without ZeRO, which is not read",
                    optimizer->name_of());
    return;
  }
  const std::map<int64_t, OptimizerGroup> states = states_by_number(*optimizer);
  std::vector<std::string> names;
  for (const SavedParameter& parameter : table.parameters) {
    if (parameter.kind == Kind::kTrained) names.push_back(parameter.name);
  }
  const bool is_one_group = optimizer->list("param_groups").items.size() == 1;
  bool fits = is_one_group && states.size() == names.size();
  for (size_t i = 0; fits && i < names.size(); ++i) {
    const auto found = states.find(narrow<int64_t>(i));
    fits = found != states.end() && std::ranges::all_of(found->second.slots, [&](const auto& slot) {
             return slot.second->shape == table.weights.at(names[i]).shape;
           });
  }
  if (!fits) {
    table.why_no_slots = fmt::format(
        "{} has {} states in {} groups for {} parameters, and without ZeRO nothing says whose they "
        "are",
        optimizer->name_of(), states.size(), optimizer->list("param_groups").items.size(),
        names.size());
    return;
  }
  table.progress.rate = rate_of(*optimizer);
  for (const auto& [number, state] : states) {
    if (number == 0) table.progress.updates = state.updates;
    for (const auto& [slot, tensor] : state.slots) {
      table.slots[slot].emplace(names[to_size(number)], whole_tensor(file, *tensor));
    }
  }
}

}  // namespace

SavedTable plain_table(const TorchFile& file) {
  const ModelStates states = model_states_of(file);
  if (!states.groups.empty()) {
    throw InputMissing(
        fmt::format("{}: is of ZeRO, but no file of an optimizer "
                    "(..._optim_states.pt), in which its weights are, lies beside it",
                    file.path()));
  }
  SavedTable table;
  table.progress = states.progress;
  for (const auto& [name, tensor] : states.module) {
    const bool is_buffer = states.buffers.contains(name);
    if (is_shared(states, name)) continue;
    add(table, name, is_buffer ? Kind::kBuffer : Kind::kTrained, whole_tensor(file, *tensor), file);
  }
  add_shared(table, states);
  add_numbered_states(table, file);
  return table;
}

// --- universal folders

namespace {

// Either {"param": tensor, ...}, or the tensor itself, which stage 3 leaves flat.
const TorchTensor& universal_tensor(const TorchFile& file) {
  if (const TorchTensor* tensor = file.root().as_tensor()) return *tensor;
  return SavedFields(file).tensor("param");
}

std::optional<std::vector<int64_t>> known_shape(const ModelStates& states,
                                                const std::string& name) {
  for (const auto& group : states.groups) {
    for (const NamedShape& parameter : group) {
      if (parameter.name == name) return parameter.shape;
    }
  }
  return std::nullopt;
}

SavedTensor universal_state(const TorchFile& file, const ModelStates& states,
                            const std::string& name) {
  SavedTensor tensor = whole_tensor(file, universal_tensor(file));
  const std::optional<std::vector<int64_t>> shape = known_shape(states, name);
  if (!shape || *shape == tensor.shape || tensor.shape.size() != 1) return tensor;
  if (numel_of({.name = name, .shape = *shape}) != tensor.numel()) {
    throw DataError(fmt::format("{}: has {} elements, but {} has the shape [{}]", file.path(),
                                tensor.numel(), name, fmt::join(*shape, ", ")));
  }
  tensor.shape = *shape;
  return tensor;
}

void add_updates(SavedTable& table, const TorchFile& file) {
  const std::optional<double> step = number_of(file, file.root());
  if (!step || *step < 0) {
    throw DataError(fmt::format("{}: has no number of updates", file.path()));
  }
  const auto updates = static_cast<int64_t>(*step);
  if (table.progress.updates.value_or(updates) != updates) {
    throw DataError(
        fmt::format("{}: is of {} updates, but other parameters of {}; the files are "
                    "of several checkpoints",
                    file.path(), updates, *table.progress.updates));
  }
  table.progress.updates = updates;
}

}  // namespace

SavedTable universal_table(const TorchFile& model, std::span<const UniversalParameter> parameters) {
  const ModelStates states = model_states_of(model);
  SavedTable table;
  table.progress = states.progress;
  for (const UniversalParameter& parameter : parameters) {
    // Another name of a parameter has a copy, which may be that of half precision.
    if (is_shared(states, parameter.name)) continue;
    const auto weights = parameter.states.find(kWeightSlot);
    if (weights == parameter.states.end()) {
      throw InputMissing(fmt::format("{}/zero/{}/fp32.pt: is missing",
                                     parent_directory(model.path()), parameter.name));
    }
    const bool is_buffer = states.buffers.contains(parameter.name);
    const bool is_trained = parameter.states.size() > 1;
    add(table, parameter.name,
        is_buffer ? Kind::kBuffer : (is_trained ? Kind::kTrained : Kind::kFrozen),
        universal_state(*weights->second, states, parameter.name), *weights->second);
    for (const auto& [state, file] : parameter.states) {
      if (state == kWeightSlot) continue;
      if (state == "step") {
        add_updates(table, *file);
      } else {
        table.slots[state].emplace(parameter.name, universal_state(*file, states, parameter.name));
      }
    }
  }
  add_rest_of_module(table, model, states);
  add_shared(table, states);
  return table;
}

// --- reading

namespace {

const std::string& file_of(const SavedTensor& tensor) { return tensor.runs.front().file->path(); }

void require_same(const JoinedTensor& whole, const JoinedPiece& piece,
                  std::span<const std::byte> expected) {
  constexpr size_t kCompared = size_t{1} << 20;
  std::vector<std::byte> own(std::min(expected.size(), kCompared));
  const JoinedRun::Holder& first = piece.holders.front();
  const int64_t item = whole.ranks[first.rank].dtype.size;
  for (const JoinedRun::Holder& holder : piece.holders.subspan(1)) {
    const SavedTensor& tensor = whole.ranks[holder.rank];
    for (size_t at = 0; at < expected.size(); at += own.size()) {
      const std::span<std::byte> part =
          std::span(own).first(std::min(own.size(), expected.size() - at));
      read(tensor, first_of(whole.join, piece, holder) + narrow<int64_t>(at) / item, part);
      if (std::ranges::equal(part, expected.subspan(at, part.size()))) continue;
      throw DataError(
          fmt::format("{}: {} is another than in {}, and all tensor-parallel ranks should have "
                      "the same of it",
                      file_of(tensor), whole.name, file_of(whole.ranks[first.rank])));
    }
  }
}

// The sum in the order of the ranks, then one division, as DeepSpeed's converter has it.
void read_mean(const JoinedTensor& whole, const JoinedPiece& piece, std::span<std::byte> into) {
  std::vector<float> sums(into.size() / sizeof(float)), own(sums.size());
  for (const JoinedRun::Holder& holder : piece.holders) {
    read(whole.ranks[holder.rank], first_of(whole.join, piece, holder),
         std::as_writable_bytes(std::span(own)));
    for (size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
  }
  for (float& sum : sums) sum /= static_cast<float>(piece.holders.size());
  std::memcpy(into.data(), sums.data(), into.size());
}

void read_joined(const SavedTensor& tensor, int64_t begin, std::span<std::byte> into) {
  const JoinedTensor& whole = *tensor.joined;
  const int64_t item = tensor.dtype.size;
  while (!into.empty()) {
    const JoinedPiece piece = piece_at(whole.join, begin);
    const int64_t count = std::min(piece.numel, std::ssize(into) / item);
    const std::span<std::byte> part = into.first(to_size(count * item));
    if (whole.join.is_mean) {
      read_mean(whole, piece, part);
    } else {
      const JoinedRun::Holder& first = piece.holders.front();
      read(whole.ranks[first.rank], first_of(whole.join, piece, first), part);
      require_same(whole, piece, part);
    }
    begin += count;
    into = into.subspan(part.size());
  }
}

}  // namespace

void read(const SavedTensor& tensor, int64_t begin, std::span<std::byte> into) {
  const int64_t item = tensor.dtype.size;
  DS_CHECK(item > 0 && std::ssize(into) % item == 0 && begin >= 0 &&
               begin + std::ssize(into) / item <= tensor.numel(),
           "read: {} bytes from element {} of {}", into.size(), begin, tensor.numel());
  if (tensor.joined) return read_joined(tensor, begin, into);
  for (const SavedRun& run : tensor.runs) {
    if (begin >= run.numel) {
      begin -= run.numel;
      continue;
    }
    const int64_t count = std::min(run.numel - begin, std::ssize(into) / item);
    if (count == 0) return;
    run.file->copy(*run.tensor, run.first + begin, into.first(to_size(count * item)));
    into = into.subspan(to_size(count * item));
    begin = 0;
  }
}

}  // namespace ds::deepspeed
