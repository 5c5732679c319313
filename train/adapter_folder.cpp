#include "train/adapter_folder.h"

#include <fmt/format.h>

#include "config/families/hf_config.h"
#include "core/status/error.h"
#include "model/hf/weights.h"
#include "train/settings/adapter_fit.h"

namespace ds {
namespace {

[[noreturn]] void refuse_without_base(const std::string& folder, const std::string& named) {
  const std::string where = join_path(folder, adapter_names::kConfig);
  if (named.empty()) {
    throw InputMissing(fmt::format(
        "{}: it does not say which model the adapters belong to (\"base_model_name_or_path\"); "
        "name its folder with --base",
        where));
  }
  throw InputMissing(fmt::format(
      "{}: the adapters belong to {}, which is no folder of a model here; download it with `hf "
      "download NAME --local-dir DIR`, and name it with --base DIR",
      where, named));
}

}  // namespace

std::optional<std::string> base_folder(FileSystem& files, const AdapterFile& file) {
  if (file.base.empty()) return std::nullopt;
  for (const std::string& place : {file.base, join_path(*file.spec.folder, file.base)}) {
    if (has_hf_weights(files, place)) return place;
  }
  return std::nullopt;
}

bool are_meant(FileSystem& files, const std::string& place, bool are_asked_for) {
  return has_adapter(files, place) && (are_asked_for || !has_hf_weights(files, place));
}

void refuse_base(const std::string& base, const std::string& place) {
  throw UsageError(fmt::format("--base {}: {} is no folder of adapters, whose model it would name",
                               base, place));
}

AdapterFolder open_adapter_folder(FileSystem& files, const std::string& folder,
                                  const std::optional<std::string>& base) {
  const AdapterFile file = read_adapter_file(files, folder);
  if (base && !has_hf_weights(files, *base)) {
    throw InputMissing(fmt::format("--base {}: no folder of a model", *base));
  }
  const std::optional<std::string> place = base ? base : base_folder(files, file);
  if (!place) refuse_without_base(folder, file.base);
  AdapterFolder found{.folder = folder, .base = *place};
  constexpr int64_t kLargest = 1 << 20;
  const std::string own = join_path(folder, adapter_names::kModel);
  found.model = files.exists(own) ? parse_hf_config(files.read_text(own, kLargest), own)
                                  : read_hf_model(files, found.base);
  found.model.adapters = file.spec;
  require_adapters(found.model);
  return found;
}

}  // namespace ds
