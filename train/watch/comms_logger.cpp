#include "train/watch/comms_logger.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>

#include "core/tasks/clock.h"

namespace ds {
namespace {

std::string name_in_log(const MeasuredCall& call, bool debug) {
  const std::string name(name_of(call.op));
  return debug && !call.label.empty() ? fmt::format("{} | [Caller: {}]", name, call.label) : name;
}

void report_lines(RunReports& reports, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) reports.report_text(line);
}

}  // namespace

std::string call_line(std::string_view name, const MeasuredCall& call) {
  const Bandwidth rate = rate_of(call.op, call.bytes, call.ranks, call.seconds);
  return fmt::format(
      "comm op: {} | time (ms): {:.2f} | msg size: {} | algbw (Gbps): {:.2f} | busbw (Gbps): "
      "{:.2f}",
      name, call.seconds / kMillisecond,
      size_text(static_cast<double>(message_bytes(call.op, call.bytes, call.ranks))),
      rate.algorithm, rate.bus);
}

CommsLogger::CommsLogger(StepTimer& timer, HostExchange& host, RunReports& reports,
                         const CommsLoggerConfig& config)
    : timer_(timer), host_(host), reports_(reports), config_(config) {
  timer_.need();
}

void CommsLogger::add(const MeasuredCall& call) {
  const std::string_view op = name_of(call.op);
  if (!config_.prof_all && std::ranges::find(config_.prof_ops, op) == config_.prof_ops.end())
    return;
  const std::string name = name_in_log(call, config_.debug);
  table_.add({.name = name,
              .op = call.op,
              .bytes = call.bytes,
              .ranks = call.ranks,
              .seconds = call.seconds});
  if (config_.verbose) spdlog::info("{}", call_line(name, call));
}

void CommsLogger::after_step(const StepReport& /*report*/) {
  if (!timer_.newest()) return;
  for (const MeasuredCall& call : timer_.newest()->between) add(call);
  for (const MeasuredPart& part : timer_.newest()->parts) {
    for (const MeasuredCall& call : part.calls) add(call);
  }
}

void CommsLogger::before_exit(RunEnd /*end*/) {
  const std::string mine = table_.to_text();
  const std::vector<std::string> hosts = host_.gather_host_names();
  std::vector<CommsTable> ranks;
  for (const auto& text : host_.gather_lists(std::vector<char>(mine.begin(), mine.end()))) {
    ranks.push_back(CommsTable::from_text({text.data(), text.size()}));
  }
  if (host_.rank() != 0) return;
  if (table_.empty()) return reports_.report_text("communication log: no call was recorded");
  report_lines(reports_, table_.summary());
  if (ranks.size() > 1) report_lines(reports_, CommsTable::stragglers(ranks, 0, hosts));
}

}  // namespace ds
