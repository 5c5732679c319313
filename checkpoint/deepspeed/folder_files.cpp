#include "checkpoint/deepspeed/folder_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "checkpoint/deepspeed/names.h"
#include "core/status/error.h"
#include "core/text/number_in.h"
#include "core/values/index.h"

namespace ds::deepspeed {

namespace {

constexpr std::string_view kModelEnd = "_model_states.pt", kOptimizerEnd = "_optim_states.pt";
constexpr std::string_view kUniversal = "zero";
constexpr int64_t kMostParts = 10000;
constexpr std::array<std::string_view, 2> kZeroFronts = {"zero_pp_rank_", "bf16_zero_pp_rank_"};

bool is_state(std::string_view name) {
  return name.ends_with(kModelEnd) || name.ends_with("-model_states.pt") ||
         name.ends_with(kOptimizerEnd);
}

bool of_zero(std::string_view name) {
  return std::ranges::any_of(kZeroFronts,
                             [&](std::string_view front) { return name.starts_with(front); });
}

std::vector<std::string> states_of(std::span<const std::string> names, std::string_view end) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (of_zero(name) && name.ends_with(end)) found.push_back(name);
  }
  return found;
}

// A universal folder has the files of models of all ranks as they were; its tensors are whole.
bool has_whole_tensors(std::span<const std::string> names) {
  return std::ranges::find(names, kUniversal) != names.end() &&
         states_of(names, kOptimizerEnd).empty();
}

// "layer_07-model_states.pt", or "layer_07-model_00-model_states.pt" with its tensor-parallel rank.
bool is_layer(std::string_view name) {
  return name.starts_with("layer_") && name.ends_with("-model_states.pt") &&
         name.find("expert_") == std::string_view::npos;
}

// 1 of "layer_07-model_01-model_states.pt".
int64_t tensor_rank_of(std::string_view layer) {
  constexpr std::string_view kRank = "-model_";
  const size_t at = layer.find(kRank);
  if (at == layer.rfind(kRank)) return 0;
  const std::string_view rest = layer.substr(at + kRank.size());
  return number_in<int64_t>(rest.substr(0, rest.find('-'))).value_or(0);
}

std::string name_of_tensor_rank(std::string layer, int64_t rank) {
  constexpr std::string_view kFirst = "-model_00-";
  const size_t at = layer.find(kFirst);
  return at == layer.npos ? layer
                          : layer.replace(at, kFirst.size(), fmt::format("-model_{:02}-", rank));
}

// The files of layers by tensor-parallel rank, each list in order. Every rank has some of each
// layer.
std::vector<std::vector<std::string>> layers_in(const std::string& folder,
                                                std::span<const std::string> names) {
  std::vector<std::vector<std::string>> layers;
  for (const std::string& name : names) {
    if (!is_layer(name)) continue;
    const int64_t rank = tensor_rank_of(name);
    if (rank >= kMostParts) continue;
    if (rank >= std::ssize(layers)) layers.resize(to_size(rank) + 1);
    nth(layers, rank).push_back(name);
  }
  for (auto& of_rank : layers) natural_sort(of_rank);
  for (int64_t rank = 1; rank < std::ssize(layers); ++rank) {
    for (const std::string& first : layers.front()) {
      const std::string wanted = name_of_tensor_rank(first, rank);
      if (std::ranges::find(nth(layers, rank), wanted) != nth(layers, rank).end()) continue;
      throw InputMissing(
          fmt::format("{}/{}: is missing; the checkpoint is of {} tensor-parallel ranks of a "
                      "pipeline, and each "
                      "has a file of each layer",
                      folder, wanted, layers.size()));
    }
    if (nth(layers, rank).size() == layers.front().size()) continue;
    throw InputMissing(
        fmt::format("{}: the first tensor-parallel rank has {} files of layers, and another one {}",
                    folder, layers.front().size(), nth(layers, rank).size()));
  }
  return layers;
}

void refuse_layouts(const std::string& folder, std::span<const std::string> names) {
  for (const std::string& name : names) {
    if (!is_state(name)) continue;
    if (name.find("expert_") != std::string::npos || name.starts_with("expp_rank_")) {
      throw Unsupported(
          fmt::format("{}: {} is of a mixture of experts; checkpoints of those are "
                      "not read",
                      folder, name));
    }
  }
}

// The half type that the names of optimizer files tell of.
HalfType half_of(std::string_view name) {
  return name.starts_with("bf16_") ? HalfType::kBF16 : HalfType::kF16;
}

std::string name_of_rank(std::string_view like, int64_t rank, int model_rank) {
  const int data_rank = narrow<int>(rank);
  return like.ends_with(kModelEnd)
             ? partitioned_model_states_name(std::nullopt, data_rank, model_rank)
             : optimizer_states_name(std::nullopt, data_rank, model_rank, half_of(like));
}

void require_all(const std::string& folder, const std::vector<std::string>& files, int64_t count,
                 int64_t model_rank) {
  for (int64_t rank = 0; rank < count; ++rank) {
    const std::string name = name_of_rank(files.front(), rank, narrow<int>(model_rank));
    if (std::ranges::find(files, name) != files.end()) continue;
    throw InputMissing(
        fmt::format("{}/{}: is missing; the checkpoint is of {} ranks, and each has "
                    "a file of its own",
                    folder, name, count));
  }
  if (std::ssize(files) > count) {
    throw DataError(
        fmt::format("{}: {} is of a rank beyond the {} that the checkpoint is of; the "
                    "files are of several checkpoints",
                    folder, files.back(), count));
  }
}

// The ranks that parts of a model have: of a pipeline those of each stage behind each other, one
// for each tensor-parallel rank; without others the first.
int64_t model_ranks_in(std::span<const std::string> names) {
  int64_t count = 1;
  for (const std::string_view name : names) {
    constexpr std::string_view kFront = "mp_rank_";
    const size_t at = name.find(kFront);
    if (at == std::string_view::npos || !is_state(name)) continue;
    const std::string_view rest = name.substr(at + kFront.size());
    const auto rank = number_in<int64_t>(rest.substr(0, rest.find('_')));
    if (rank && *rank < kMostParts) count = std::max(count, *rank + 1);
  }
  return count;
}

std::vector<std::string> of_model_rank(std::span<const std::string> names, int64_t rank) {
  std::vector<std::string> found;
  const std::string part = fmt::format("mp_rank_{:02}_", rank);
  for (const std::string& name : names) {
    if (name.find(part) != std::string::npos) found.push_back(name);
  }
  return found;
}

RankFiles rank_files(const std::string& folder, std::span<const std::string> names,
                     int64_t model_rank, bool is_universal) {
  RankFiles files{.model_rank = model_rank, .model = {}, .optimizer = {}};
  const std::string whole = model_states_name(std::nullopt, narrow<int>(model_rank));
  if (std::ranges::find(names, whole) != names.end()) files.model = {whole};
  const std::vector<std::string> own = states_of(names, kModelEnd);
  // In a universal folder it says the same for stage 3, which looks for this name.
  const bool is_copy = is_universal && !files.model.empty();
  if (!own.empty() && !is_copy) {
    if (!files.model.empty()) {
      throw DataError(
          fmt::format("{}: has {} of stage 3 and {} of another stage; the files are of "
                      "several checkpoints",
                      folder, own.front(), whole));
    }
    files.model = zero_files(own);
  }
  if (files.model.empty()) {
    throw DataError(fmt::format("{}: has no {}, so no checkpoint of DeepSpeed", folder, whole));
  }
  const std::vector<std::string> states = states_of(names, kOptimizerEnd);
  files.optimizer = zero_files(states);
  if (files.optimizer.size() != states.size()) {
    throw DataError(
        fmt::format("{}: has optimizer files with and without the prefix bf16_; the "
                    "files are of several checkpoints",
                    folder));
  }
  return files;
}

}  // namespace

bool is_checkpoint(std::span<const std::string> names) {
  return std::ranges::any_of(names, [](const std::string& name) { return is_state(name); });
}

FolderFiles files_of(const std::string& folder, std::span<const std::string> names) {
  refuse_layouts(folder, names);
  FolderFiles files{.parts = {}, .layers = {}, .is_universal = has_whole_tensors(names)};
  if (files.is_universal) {
    files.parts.push_back(rank_files(folder, of_model_rank(names, 0), 0, true));
    return files;
  }
  files.layers = layers_in(folder, names);
  const int64_t of_stage = std::max<int64_t>(std::ssize(files.layers), 1);
  // Whole stages: a rank that is missing at the end is missed, too.
  const int64_t count = (model_ranks_in(names) + of_stage - 1) / of_stage * of_stage;
  for (int64_t rank = 0; rank < count; ++rank) {
    const std::vector<std::string> own = of_model_rank(names, rank);
    const std::string whole = model_states_name(std::nullopt, narrow<int>(rank));
    const bool has_model = std::ranges::find(own, whole) != own.end() ||
                           (files.layers.empty() && !states_of(own, kModelEnd).empty());
    if (count > 1 && !has_model) {
      throw InputMissing(fmt::format(
          "{}/{}: is missing; the checkpoint is of {}, and each {} has files of its own", folder,
          whole, files.layers.empty() ? "tensor-parallel ranks" : "a pipeline",
          files.layers.size() == 1 ? "stage" : "rank"));
    }
    files.parts.push_back(rank_files(folder, own, rank, false));
  }
  return files;
}

void require_ranks(const std::string& folder, const RankFiles& files, int64_t count) {
  if (!files.optimizer.empty()) require_all(folder, files.optimizer, count, files.model_rank);
  if (of_zero(files.model.front())) require_all(folder, files.model, count, files.model_rank);
}

std::string tag_of(const std::string& path, std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.remove_suffix(1);
  const bool is_name = !text.empty() && text != "." && text != ".." &&
                       text.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
  if (!is_name) {
    throw DataError(
        fmt::format("{}: says '{}', expected the name of a checkpoint's folder", path, text));
  }
  return std::string(text);
}

}  // namespace ds::deepspeed
