#include <fmt/format.h>

#include "cli/text/terminal_text.h"
#include "core/files/file.h"
#include "launcher/decide/text/json_text.h"
#include "launcher/report/page/report_page.h"
#include "launcher/verbs/found_run.h"
#include "launcher/verbs/watch/watch.h"

namespace ds {

int run_report(const ReportOptions& options) {
  const RunFiles run{.name = options.run,
                     .metrics = run_curves(options.run),
                     .report = run_file(options.run, "report.json"),
                     .plan = run_file(options.run, "plan.json"),
                     .config = run_file(options.run, "config.json")};
  if (run.metrics.empty() && run.report.empty() && run.plan.empty()) {
    throw InputMissing(fmt::format("{}: nothing of a run is there", options.run));
  }
  const std::string page =
      options.output.empty() ? join_path(options.run, "report.html") : options.output;
  RealFileSystem files;
  files.write_text_atomically(page, report_page(run));
  if (options.json) {
    say("{}\n", JsonObject().text("page", page).str());
  } else {
    say("{}\n", page);
  }
  return 0;
}

}  // namespace ds
