// adapter_config.json in and out: what Hugging Face's peft says of a folder of adapters.
#pragma once

#include <string>
#include <vector>

#include "config/sections/adapters/lora.h"
#include "core/files/file.h"

namespace ds {

struct AdapterFile {
  AdapterSpec spec;  // its folder is set
  std::string base;  // base_model_name_or_path, as it stands there; may be empty
  std::string task;  // "CAUSAL_LM", "SEQ_CLS", ...; may be empty
};

// Whether it is a folder of adapters.
bool has_adapter(FileSystem& files, const std::string& folder);
// DataError for what is no such file, or names impossible values; Unsupported for other methods
// than LoRA, rsLoRA and DoRA, and for what changes results and is not built, by its key.
AdapterFile read_adapter_file(FileSystem& files, const std::string& folder);

// Those that a section asks for, with what the folder says that they begin with.
AdapterSpec adapters_of(const LoraConfig& lora, FileSystem& files);

// The text of one that peft reads back to the same adapters. `modules`: ends of the paths of all
// modules that have one. base: the folder of the model; empty: nothing is said.
struct AdapterText {
  const AdapterSpec& spec;
  std::vector<std::string> modules;
  std::string base, task;
  bool inputs_first = false;  // as GPT-2's layers have their weights
};
std::string format_adapter_file(const AdapterText& text);

}  // namespace ds
