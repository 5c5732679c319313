// What the keys of one configuration do in this build, by the effects that fields() names: what is
// asked for and missing, what is so whatever is said, and which sections are off. One walk; what
// depends on several keys at once is in config/inert.h and config/available.h.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace ds {

// A feature that is asked for and missing.
struct MissingFeature {
  std::string path;               // of the key, or of the section that is the feature
  std::string message;            // "not available in this build; bf16 is"
  std::vector<std::string> moot;  // what stands in these does not matter then
};

// A key with another value than what is always so.
struct FixedKey {
  std::string path;
  std::string message;
};

struct SectionOff {
  std::string path;
  std::string key;  // its switch, "zero_optimization.offload_param.device"
  std::string why;  // "amp.enabled is false"
};

struct Effects {
  std::vector<MissingFeature> missing;
  std::vector<FixedKey> fixed;
  std::vector<SectionOff> off;  // sections in these are not looked at
};
Effects effects_of(const Config& config);

// The keys of train.json behind which a missing feature is, sorted. Some are refused for some of
// their values only.
std::vector<std::string> keys_with_missing_features();

}  // namespace ds
