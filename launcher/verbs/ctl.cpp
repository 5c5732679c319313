#include <fmt/format.h>

#include <cstdio>

#include "launcher/verbs/found_run.h"
#include "launcher/verbs/watch.h"

namespace ds {

int run_ctl(const CtlOptions& options) {
  fmt::print("{}\n", ask_running(options.run, options.order).notice);
  return 0;
}

}  // namespace ds
