// Universal checkpoints as DeepSpeed 0.19 reads them (what its ds_to_universal writes), which it
// loads with {"checkpoint": {"load_universal": true}} into any number of ranks and stage of ZeRO:
//
//   latest_universal                the tag
//   global_step12/
//     mp_rank_00_model_states.pt    steps, samples, the scheduler's place; no weights
//     zero_pp_rank_0_mp_rank_00_model_states.pt   the same, where stage 3 looks for it
//     zero/optimizer_state.pt       the optimizer's step and the rate of its next update, in the
//                                   places where each stage looks
//     zero/NAME/fp32.pt             {"param": the fp32 weight, "cat_dim": 0}; NAME as transformers'
//     zero/NAME/exp_avg.pt, ...     models have it; none of these of what is not trained
//     zero/NAME/step.pt             updates that the optimizer has made, as fp32
#pragma once

#include <string>

#include "core/files/file.h"
#include "core/values/dtype.h"
#include "train/convert/source.h"

namespace ds {

// Unsupported where there is none of it: weights alone, other slots than Adam's.
// UsageError for another type than fp32.
void require_universal(const ConversionSource& source, DType dtype);

// Writes it into a folder that is made. IoError or DiskFull; else as source.read throws.
void write_universal(FileSystem& files, const std::string& folder, ConversionSource& source);

}  // namespace ds
