// The reports of the flops profiler (pure): a summary, the largest modules at each depth, and the
// tree of all of them, with the columns of DeepSpeed's; and all of it as JSON.
#pragma once

#include <optional>
#include <string>

#include "train/profile/module_profile.h"

namespace ds {

struct ProfileFigures {
  int64_t step = 0;  // steps done before it
  int world_size = 1;
  int data_ranks = 1;
  int model_shards = 1;
  int64_t micro_batch = 1;
  // These are the seconds of one micro-step, and of the update behind the micro-steps.
  double forward_s = 0;
  double backward_s = 0;
  double update_s = 0;
  double recompute_factor = 0;  // further forward passes in a backward
};

struct ProfileWish {
  int64_t module_depth = -1;  // -1: all
  int64_t top_modules = 1;
  bool detailed = true;
};

std::string profile_text(const ProfileFigures& figures, const ModuleProfile& model,
                         const ProfileWish& wish);
std::string profile_json(const ProfileFigures& figures, const ModuleProfile& model);

}  // namespace ds
