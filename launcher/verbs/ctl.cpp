#include <fmt/format.h>

#include <cstdio>

#include "launcher/control_request.h"
#include "launcher/verbs/found_run.h"
#include "launcher/verbs/watch.h"

namespace ds {

int run_ctl(const CtlOptions& options) {
  fmt::print("{}\n", ask_running(options.run, control_verb(options.order)).notice);
  return 0;
}

}  // namespace ds
