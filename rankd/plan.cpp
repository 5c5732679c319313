#include "rankd/plan.h"

#include "core/error.h"

namespace ds {

int run_plan(const PlanArgs& args) {
  throw Unsupported(fmt::format("plan {}: this build of rankd has no engine", args.config_path));
}

}  // namespace ds
