// The ways in which a small run may have its optimizer state and its weights beside the device.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/train/runs/small_run.h"

namespace ds::testing {

inline std::string words_of(const Setting& s) {
  return fmt::format(
      "{} ranks, stage {}, {}, {} micro-steps, {} of the state on {}, parts of {}, weights on {}",
      s.ranks, s.stage, name_of(s.dtype), s.micro_steps, s.offload_ratio, name_of(s.state),
      s.sub_group_numel, name_of(s.params));
}

// The ways of offloading state that a stage has.
inline std::vector<Setting> offloads_of(Setting s) {
  std::vector<Setting> all;
  s.state = Tier::kHost;
  all.push_back(s);
  if (s.stage < 3) return all;
  for (const double ratio : {0.0, 0.3}) {
    s.offload_ratio = ratio;
    all.push_back(s);
  }
  s.offload_ratio = 1;
  s.state = Tier::kNvme;
  s.sub_group_numel = 640;
  all.push_back(s);
  s.offload_ratio = 0.3;
  s.sub_group_numel = INT64_MAX;
  s.rolling = {.buffers = 3,
               .pipeline_read = true,
               .pipeline_write = true,
               .fast_init = true,
               .pinning = Pinning::kNone};
  all.push_back(s);
  return all;
}

// Those with the weights beside the device, too: at stage 3.
inline std::vector<Setting> offloads_of_both(const Setting& s) {
  std::vector<Setting> all;
  for (const Tier params : {Tier::kHost, Tier::kNvme}) {
    for (Setting setting : offloads_of(s)) {
      setting.params = params;
      all.push_back(setting);
    }
  }
  return all;
}

// options: those of the setting, or like them.
inline void check_plan(const Setting& setting, const EngineOptions& options, const Outcome& got) {
  const RunPlan plan = dry_run(options, mesh_of(setting), {});
  for (int tier = 0; tier < kTiers; ++tier) {
    CAPTURE(name_of(static_cast<Tier>(tier)));
    const MemoryUsage& planned = nth(plan.of_rank(0).memory, tier);
    CHECK(nth(got.tiers, tier).bytes_peak == planned.bytes_peak);
    CHECK(nth(got.tiers, tier).tag_bytes_at_peak == planned.tag_bytes_at_peak);
  }
}

inline void check_plan(const Setting& setting, const Outcome& got) {
  check_plan(setting, options_of(setting), got);
}

}  // namespace ds::testing
