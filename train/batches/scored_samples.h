// What is scored of samples that have classes, or values.
#pragma once

#include <cstdint>

#include "config/families/spec/transformer_spec.h"

namespace ds {

struct ScoredSamples {
  ScoredRow row = ScoredRow::kFirst;
  int64_t values = 0;    // of a sample; 0: it has a class
  bool is_pair = false;  // its class is a pair's, beside what its tokens are
};

}  // namespace ds
