// What ZeRO, ZeRO++, MiCS, offload and ZenFlow are to do, of a configuration (pure).
#pragma once

#include <optional>
#include <string>

#include "config/config.h"
#include "zero/zero_options.h"

namespace ds {

DType dtype_of_config(FloatType type);
// That of products under torch_autocast; nothing: it is off.
std::optional<DType> autocast_dtype(const TorchAutocastConfig& autocast);

// Without the section, or while ZeRO is off, the device is none.
OffloadOptimizerConfig offload_optimizer(const Config& config);
bool updates_ahead(const OffloadOptimizerConfig& offload);
std::optional<ZenflowOptions> zenflow_options(const Config& config);
// As what frozen weights of linear layers are kept; nothing: as they are.
std::optional<kernels::BlockCode> base_code(const std::optional<LoraConfig>& lora);
// "nf4, 4.125 bits each", of weights that are kept so.
std::string code_words(const kernels::BlockCode& code);
// dtype: of weights and gradients; micro_steps: of a step.
ZeroOptions zero_options(const Config& config, DType dtype, int64_t micro_steps);

}  // namespace ds
