#include "train/adapter_folder.h"

#include <fmt/format.h>

#include "config/families/hf_config.h"
#include "config/sections/adapter_file.h"
#include "core/status/error.h"
#include "model/hf/weights.h"
#include "train/settings/adapter_fit.h"

namespace ds {
namespace {

std::string base_of(FileSystem& files, const std::string& folder, const std::string& named) {
  const std::string where = join_path(folder, adapter_names::kConfig);
  if (named.empty()) {
    throw InputMissing(fmt::format(
        "{}: it does not say which model the adapters belong to (\"base_model_name_or_path\"); "
        "name its folder with --base",
        where));
  }
  for (const std::string& place : {named, join_path(folder, named)}) {
    if (has_hf_weights(files, place)) return place;
  }
  throw InputMissing(fmt::format(
      "{}: the adapters belong to {}, which is no folder of a model here; download it with `hf "
      "download NAME --local-dir DIR`, and name it with --base DIR",
      where, named));
}

}  // namespace

AdapterFolder open_adapter_folder(FileSystem& files, const std::string& folder,
                                  const std::optional<std::string>& base) {
  const AdapterFile file = read_adapter_file(files, folder);
  if (base && !has_hf_weights(files, *base)) {
    throw InputMissing(fmt::format("--base {}: no folder of a model", *base));
  }
  AdapterFolder found{.folder = folder, .base = base ? *base : base_of(files, folder, file.base)};
  found.config = files.exists(join_path(folder, "config.json")) ? folder : found.base;
  found.model =
      found.config == folder ? read_hf_config(files, folder) : read_hf_model(files, found.base);
  found.model.adapters = file.spec;
  require_adapters(found.model);
  return found;
}

}  // namespace ds
