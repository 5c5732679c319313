#include <fmt/format.h>

#include <cstdio>

#include "cli/text/terminal_text.h"
#include "launcher/report/status_text.h"
#include "launcher/verbs/found_run.h"
#include "launcher/verbs/watch/watch.h"

namespace ds {

int run_status(const StatusOptions& options) {
  const RunStatus status = find_status(options.run);
  if (options.json) {
    say("{}\n", status_json(status));
  } else {
    say("{}", options.prometheus ? status_prometheus(status) : status_text(status));
  }
  return code_of(status);
}

}  // namespace ds
