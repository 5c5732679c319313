#include <fmt/format.h>

#include <cstdio>

#include "launcher/status_text.h"
#include "launcher/verbs/found_run.h"
#include "launcher/verbs/watch.h"

namespace ds {

int run_status(const StatusOptions& options) {
  const RunStatus status = find_status(options.run);
  switch (options.form) {
    case StatusForm::kText:
      fmt::print("{}", status_text(status));
      break;
    case StatusForm::kJson:
      fmt::print("{}\n", status_json(status));
      break;
    case StatusForm::kPrometheus:
      fmt::print("{}", status_prometheus(status));
      break;
  }
  return code_of(status);
}

}  // namespace ds
