#include "checkpoint/deepspeed/folder_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "checkpoint/deepspeed/names.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::deepspeed {

namespace {

constexpr std::string_view kModelEnd = "_model_states.pt", kOptimizerEnd = "_optim_states.pt";
constexpr std::string_view kUniversal = "zero";
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

void refuse_layouts(const std::string& folder, std::span<const std::string> names) {
  constexpr std::string_view kAdvice =
      "DeepSpeed's ds_to_universal.py makes a universal checkpoint of it, which is read";
  for (const std::string& name : names) {
    if (!is_state(name)) continue;
    if (name.find("expert_") != std::string::npos || name.starts_with("expp_rank_")) {
      throw Unsupported(
          fmt::format("{}: {} is of a mixture of experts; checkpoints of those are "
                      "not read",
                      folder, name));
    }
    if (has_whole_tensors(names)) continue;
    if (name.starts_with("layer_")) {
      throw Unsupported(fmt::format("{}: {} is of a pipeline; {}", folder, name, kAdvice));
    }
    const size_t model_rank = name.find("mp_rank_");
    if (model_rank != std::string::npos && name.find("mp_rank_00") == std::string::npos) {
      throw Unsupported(
          fmt::format("{}: {} is of several tensor-parallel ranks; {}", folder, name, kAdvice));
    }
  }
}

// The half type that the names of optimizer files tell of.
HalfType half_of(std::string_view name) {
  return name.starts_with("bf16_") ? HalfType::kBF16 : HalfType::kF16;
}

std::string name_of_rank(std::string_view like, int64_t rank) {
  const int data_rank = narrow<int>(rank);
  return like.ends_with(kModelEnd)
             ? partitioned_model_states_name(std::nullopt, data_rank, 0)
             : optimizer_states_name(std::nullopt, data_rank, 0, half_of(like));
}

void require_all(const std::string& folder, const std::vector<std::string>& files, int64_t count) {
  for (int64_t rank = 0; rank < count; ++rank) {
    const std::string name = name_of_rank(files.front(), rank);
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

}  // namespace

bool is_checkpoint(std::span<const std::string> names) {
  return std::ranges::any_of(names, [](const std::string& name) { return is_state(name); });
}

FolderFiles files_of(const std::string& folder, std::span<const std::string> names) {
  refuse_layouts(folder, names);
  FolderFiles files{.model = {}, .optimizer = {}, .is_universal = has_whole_tensors(names)};
  const std::string whole = model_states_name(std::nullopt, 0);
  if (std::ranges::find(names, whole) != names.end()) files.model = {whole};
  const std::vector<std::string> own = states_of(names, kModelEnd);
  // In a universal folder it says the same for stage 3, which looks for this name.
  const bool is_copy = files.is_universal && !files.model.empty();
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

void require_ranks(const std::string& folder, const FolderFiles& files, int64_t count) {
  if (!files.optimizer.empty()) require_all(folder, files.optimizer, count);
  if (of_zero(files.model.front())) require_all(folder, files.model, count);
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
