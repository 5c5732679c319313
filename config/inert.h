// Keys that have no effect in this combination of keys: notes where they are given, never errors.
// What a key does by itself is in fields() (config/effect.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/effect.h"
#include "config/field_reader.h"
#include "config/reader/problem.h"

namespace ds {

// A key with what stands in it, or all keys in a section but one.
struct InertKeys {
  enum Kind { kKey, kSection };

  bool covers(std::string_view other) const;

  std::string path;
  Kind kind = kKey;
  std::string but;  // a path in the section
  std::string why;  // "has no effect at ZeRO stage 0"
};
// `effects`: of this configuration, here and below.
std::vector<InertKeys> inert_keys(const Config& config, const Effects& effects);

// Those, and keys that ask for another behaviour than the only one there is.
void note_inert_keys(const Config& config, const Effects& effects, const Origins& origins,
                     Problems& problems);

// What is wrong in sections that are switched off, and not for DeepSpeed, becomes notes.
void soften_what_is_off(const Effects& effects, Problems& problems);

}  // namespace ds
