#include <fmt/format.h>

#include "core/files/file.h"
#include "launcher/decide/json_text.h"
#include "launcher/show/report_page.h"
#include "launcher/verbs/watch.h"

namespace ds {

int run_report(const ReportOptions& options) {
  RealFileSystem files;
  constexpr int64_t kMost = int64_t{4} << 30;
  const auto text_of = [&](const char* name) {
    const std::string path = join_path(options.run, name);
    return files.exists(path) ? files.read_text(path, kMost) : std::string();
  };
  const RunFiles run{.name = options.run,
                     .metrics = text_of("metrics.jsonl"),
                     .report = text_of("report.json"),
                     .plan = text_of("plan.json")};
  if (run.metrics.empty() && run.report.empty() && run.plan.empty()) {
    throw InputMissing(fmt::format("{}: nothing of a run is there", options.run));
  }
  const std::string page =
      options.output.empty() ? join_path(options.run, "report.html") : options.output;
  files.write_text_atomically(page, report_page(run));
  if (options.json) {
    fmt::print("{}\n", JsonObject().text("page", page).str());
  } else {
    fmt::print("{}\n", page);
  }
  return 0;
}

}  // namespace ds
