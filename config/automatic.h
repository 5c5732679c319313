// What each "auto" of a document comes to (pure). Hugging Face's Trainer writes its own arguments
// there; no trainer stands above this program, so that each is said.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "config/reader/problem.h"
#include "config/reader/value.h"

namespace ds {

struct AutomaticValue {
  std::string path;    // of a field or an optional section, with its current name
  Origin origin;       // where "auto" stands
  Value value;         // what it is taken as; null where that is "not given"
  std::string reason;  // "the default", "not given: train.steps"
};
// In the order of fields(). A key that has "auto" among its own values is none of them.
std::vector<AutomaticValue> automatic_values(const Value& document, const Config& config);

// Settles what follows from other keys: the peak of a warm-up is the optimizer's learning rate.
void settle_automatic(const Value& document, Config& config);

// A note for each, when all else is settled.
void note_automatic(const Value& document, const Config& config, Problems& problems);

}  // namespace ds
