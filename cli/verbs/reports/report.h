// `dslaunch report [RUN_DIR]`.
#pragma once

#include <string>

namespace ds {

class VerbApp;

struct ReportOptions {
  std::string run = "runs/latest";
  std::string output;  // empty: report.html of the run directory
  bool json = false;
};

void describe_report(VerbApp& app, ReportOptions& values);

}  // namespace ds
