// The verbs that look at a run from outside: `dslaunch status|top|tail|stack|ctl [RUN_DIR]`.
#pragma once

#include <filesystem>
#include <optional>
#include <variant>

#include "launcher/control_request.h"
#include "launcher/verbs/found_run.h"

namespace ds {

enum class StatusForm { kText, kJson, kPrometheus };

struct StatusOptions {
  std::filesystem::path run;
  StatusForm form = StatusForm::kText;
};
struct TopOptions {
  std::filesystem::path run;
  int samples = 0;  // 0: until the run ends
};
struct TailOptions {
  std::filesystem::path run;
  std::optional<int> rank;
  int lines = 20;
  bool follow = false;
};
struct StackOptions {
  std::filesystem::path run;
};
struct CtlOptions {
  std::filesystem::path run;
  ControlVerb order = ControlVerb::kSave;
};

using WatchCommand = std::variant<StatusOptions, TopOptions, TailOptions, StackOptions, CtlOptions>;

// Each prints to standard output and returns the exit code. They throw InputMissing where there is no such
// run, and what query_run() throws.
int run_status(const StatusOptions& options);
int run_top(const TopOptions& options);
int run_tail(const TailOptions& options);
int run_stack(const StackOptions& options);
int run_ctl(const CtlOptions& options);

inline int run_watch(const WatchCommand& command) {
  struct Verbs {
    int operator()(const StatusOptions& options) const { return run_status(options); }
    int operator()(const TopOptions& options) const { return run_top(options); }
    int operator()(const TailOptions& options) const { return run_tail(options); }
    int operator()(const StackOptions& options) const { return run_stack(options); }
    int operator()(const CtlOptions& options) const { return run_ctl(options); }
  };
  WatchCommand meant = command;
  std::visit([](auto& options) { options.run = meant_run(options.run); }, meant);
  return std::visit(Verbs{}, meant);
}

}  // namespace ds
