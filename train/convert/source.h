// What a conversion reads: a checkpoint of ours or of DeepSpeed's, or weights alone, as parameters
// of the model that it is of. Nothing of it is executed, and no more than what is asked for is in
// memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/optimizer_states.h"
#include "config/families/list.h"
#include "core/device/tensor.h"
#include "core/files/file.h"
#include "model/pass/param.h"
#include "train/convert/conversion.h"

namespace ds {

struct ConversionSource {
  Converted about;
  ModelConfig model{};
  std::string config{};     // the folder whose config.json it is; empty: the source says it itself
  std::string tokenizer{};  // a folder that has one; empty: that of `config` comes along
  std::vector<ParamSpec> specs{};
  std::vector<std::string> slots{};    // of its optimizer, such as "exp_avg"
  std::set<std::string> frozen{};      // stored tensors of specs that have none of them
  std::optional<double> loss_scale{};  // of fp16, where it stands
  int64_t skipped = 0;                 // of its steps, which were no updates
  int64_t updates = 0;                 // of its optimizer
  int64_t scheduler_steps = 0;         // of its scheduler; without one as many as updates
  int64_t samples = 0;                 // that it was trained on; 0: nobody knows
  // What its next update would have run with, all parameters alike; nothing where it does not say
  // it.
  std::optional<double> rate{};
  std::optional<std::array<double, 2>> betas{};
  // Fills a flat fp32 tensor with elements of parameter `index` from `begin` on: of its fp32 weight
  // (kWeightSlot) or of a slot. As the readers throw.
  std::function<void(size_t index, const std::string& slot, int64_t begin, Tensor& into)> read{};
};

// InputMissing, DataError, ValidationError or Unsupported, as the readers throw.
ConversionSource open_source(FileSystem& files, const Conversion& what);

}  // namespace ds
