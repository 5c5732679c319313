#include "data/chat/value/budget.h"

#include <fmt/format.h>

namespace ds::chat {

void Budget::spend(size_t steps) {
  if (steps > static_cast<size_t>(limits_.steps - steps_)) {
    steps_ = limits_.steps;
    throw Fault(fmt::format("the template takes more than {} steps", limits_.steps));
  }
  steps_ += static_cast<int64_t>(steps);
}

void Budget::take(size_t bytes) {
  if (bytes > limits_.bytes - bytes_) {
    throw Fault(fmt::format("the template takes more than {} bytes of memory", limits_.bytes));
  }
  bytes_ += bytes;
}

void Budget::check_depth(int depth) const {
  if (depth > limits_.depth)
    throw Fault(fmt::format("nested deeper than {} levels", limits_.depth));
}

}  // namespace ds::chat
