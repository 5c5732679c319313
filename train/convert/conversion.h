// What is to be converted, and what came of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/values/dtype.h"

namespace ds {

enum class ConversionTarget : uint8_t {
  kHf,         // config.json, safetensors, and the tokenizer of the folder that config.json is in
  kBin,        // the same with pytorch_model.bin, for programs that read no safetensors
  kUniversal,  // weights, moments and steps, as DeepSpeed loads with checkpoint.load_universal
};

enum class WantedSource : uint8_t {
  kAny,       // adapters of it are merged, too
  kAdapters,  // what has none is refused
};

struct Conversion {
  std::string source;
  std::string destination;              // must not be there
  std::optional<std::string> tag{};     // of the source, where it holds several checkpoints
  std::optional<std::string> config{};  // a folder with config.json, or that file; none: beside the
                                        // source
  // The folder of the model that a folder of adapters belongs to; none: the one that they name.
  std::optional<std::string> base{};
  std::optional<std::string> name_map{};  // a file of rules (train/convert/name_rules.h)
  DType dtype = DType::kF32;              // of the weights that are written; fp32 for kUniversal
  ConversionTarget target = ConversionTarget::kHf;
  WantedSource wanted = WantedSource::kAny;
  // Called before each tensor is read and before the destination appears; what it throws ends the
  // conversion, of which nothing stays.
  std::function<void()> go_on = [] {};
};

struct Converted {
  std::string from;  // the folder or file that was read
  int64_t tensors = 0, numel = 0, bytes = 0;
  std::optional<int64_t> step{};     // of training, where the source says it
  std::string by;                    // what wrote the source, in words
  std::vector<std::string> notes{};  // of what is not in the destination
};

}  // namespace ds
