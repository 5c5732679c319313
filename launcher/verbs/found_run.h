// A run as it is found from outside: alive, or what it left on the disk.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "launcher/control/control_query.h"
#include "launcher/control/control_request.h"
#include "launcher/report/page/metric_curves.h"

namespace ds {

// What is meant by the name of a run: "runs/latest", which is what nobody's name stands for, is the
// newest run that has trained a step, unless that is over and another one goes on beside it. Throws
// UsageError where several do.
std::filesystem::path meant_run(const std::filesystem::path& named);

// The status of the run in `directory`. Throws InputMissing where there is none.
RunStatus find_status(const std::filesystem::path& directory);

// The answer of the dslaunch that runs there. Throws InputMissing where none does, saying how the
// run ended.
ControlReply ask_running(const std::filesystem::path& directory, const ControlRequest& request);

// 0 for a run that goes on or ended well, 1 otherwise.
int code_of(const RunStatus& status);

// Returns the log files by rank. Throws InputMissing if there is no such run.
std::map<int, std::filesystem::path> rank_logs(const std::filesystem::path& directory);

// The text of a small file of a run directory; empty where there is none. Throws DataError for what
// is no regular file or larger than any that dslaunch writes.
std::string run_file(const std::filesystem::path& directory, std::string_view name);

// What its metrics.jsonl says; empty where there is none. Throws likewise.
MetricCurves run_curves(const std::filesystem::path& directory);

// The newest thousand of its steps or so, read from the end of its metrics.jsonl. Throws as
// run_curves() does.
MetricCurves recent_curves(const std::filesystem::path& directory);

// Whether report.json of a run, whose text this is, has something under that name; null is nothing.
bool report_has(const std::string& report, const char* name);

uintmax_t size_of_file(const std::filesystem::path& path);  // 0 where there is none

}  // namespace ds
