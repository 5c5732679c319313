// A folder of adapters, as peft writes it and as final/ of a run with adapters is, with the model
// that it belongs to.
#pragma once

#include <optional>
#include <string>

#include "config/families/list.h"
#include "config/sections/adapters/adapter_file.h"
#include "core/files/file.h"

namespace ds {

struct AdapterFolder {
  std::string folder;
  std::string base;     // the folder of the model that the adapters are of
  ModelConfig model{};  // with its adapters
};
// The folder of the model that adapter_config.json names, looked for from here and from the folder
// of the adapters; nothing where it is no folder of a model, or none is named.
std::optional<std::string> base_folder(FileSystem& files, const AdapterFile& file);

// Whether a place is taken for the adapters that it has: what has a model, too, is a model unless
// they are asked for.
bool are_meant(FileSystem& files, const std::string& place, bool are_asked_for);
// UsageError: --base beside what has no adapters.
[[noreturn]] void refuse_base(const std::string& base, const std::string& place);

// `base`: unset, that of base_folder(). InputMissing where it is no folder of a model; else as
// read_adapter_file and read_hf_model throw.
AdapterFolder open_adapter_folder(FileSystem& files, const std::string& folder,
                                  const std::optional<std::string>& base = std::nullopt);

}  // namespace ds
