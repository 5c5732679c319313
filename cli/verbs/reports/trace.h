// `dslaunch trace [RUN_DIR]`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ds {

class VerbApp;

struct TraceOptions {
  std::string run = "runs/latest";
  int64_t steps = 3;
  std::vector<int> ranks;  // empty: all
  std::string output;      // empty: trace.json of the run directory
  bool json = false;
};

void describe_trace(VerbApp& app, TraceOptions& values);

}  // namespace ds
