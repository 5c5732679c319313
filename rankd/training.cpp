#include "rankd/training.h"

#include "core/error.h"

namespace ds {

int run_training(const JobPlan& plan, ControlClient& control) {
  static_cast<void>(plan);
  static_cast<void>(control);
  throw Unsupported("training: this build of rankd has no engine");
}

}  // namespace ds
