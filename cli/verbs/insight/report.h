// `dslaunch report [RUN_DIR]`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ds {

struct ReportOptions {
  std::string run = "runs/latest";
  std::string output;  // empty: report.html of the run directory
  bool json = false;
};

void describe_report(CLI::App& app, ReportOptions& values);

}  // namespace ds
