#include "launcher/report/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/values/index.h"
#include "launcher/control/run_status.h"
#include "launcher/decide/text/json_text.h"
#include "launcher/report/progress.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

std::string kind_name(Failure::Kind kind) {
  switch (kind) {
    case Failure::Kind::kSignal:
      return "signal";
    case Failure::Kind::kExit:
      return "exit";
    case Failure::Kind::kLease:
      return "no heartbeat";
    case Failure::Kind::kNeverJoined:
      return "never joined";
    case Failure::Kind::kHungAtStart:
      return "hang at start";
    case Failure::Kind::kHang:
      return "hang";
    case Failure::Kind::kUnreported:
      return "no report";
    case Failure::Kind::kHostLost:
      return "host lost";
    case Failure::Kind::kLinkCut:
      return "link cut";
  }
  return "unknown";
}

std::string cause_json(const Failure& cause) {
  return JsonObject()
      .integer("rank", cause.rank)
      .text("kind", kind_name(cause.kind))
      .integer("value", cause.value)
      .integer("step", cause.step)
      .text("message", describe(cause))
      .str();
}

std::string json_or_null(std::optional<int64_t> value) {
  return value ? std::to_string(*value) : "null";
}

std::string rank_json(size_t number, const RankRecord& rank) {
  JsonObject out;
  out.integer("rank", static_cast<int64_t>(number));
  out.raw("exit_code", json_or_null(rank.exit_code));
  out.raw("signal", rank.signal != 0 ? std::to_string(rank.signal) : "null");
  if (!rank.measured) {
    for (const char* const key : {"steps", "device_bytes_peak", "host_bytes_peak", "nvme_bytes",
                                  "rss_bytes_peak", "categories"})
      out.raw(key, "null");
    return out.str();
  }
  const control::Measured& m = *rank.measured;
  const std::optional<int64_t> resident =
      m.rss_bytes_peak() > 0 ? std::optional(m.rss_bytes_peak()) : std::nullopt;
  out.integer("steps", m.steps())
      .integer("device_bytes_peak", m.device_bytes_peak())
      .integer("host_bytes_peak", m.host_bytes_peak())
      .integer("nvme_bytes", m.nvme_bytes())
      .raw("rss_bytes_peak", json_or_null(resident));
  JsonObject categories;
  const std::map<std::string, int64_t> sorted(m.categories().begin(), m.categories().end());
  for (const auto& [name, bytes] : sorted) {
    categories.integer(name, bytes);
  }
  out.raw("categories", categories.str());
  JsonObject results;
  for (const auto& [name, value] :
       std::map<std::string, double>(m.results().begin(), m.results().end())) {
    results.number(name, value);
  }
  if (m.results().empty()) return out.str();
  return out.raw("results", results.str()).str();
}

std::string epoch_json(const EpochRecord& epoch) {
  return JsonObject()
      .integer("generation", epoch.epoch)
      .integer("world_size", static_cast<int64_t>(epoch.ranks))
      .raw("steps", json_or_null(epoch.steps))
      .text("reason", epoch.reason)
      .str();
}

std::string commit_json(const std::optional<control::CommittedTag>& commit) {
  return commit ? JsonObject().text("tag", commit->tag()).integer("step", commit->step()).str()
                : "null";
}

// How many steps the training has behind it. A launch that goes on from the last step reports none,
// and its ranks say at the end what they loaded. Nothing: no rank came so far.
std::optional<int64_t> steps_of(const RunRecord& record) {
  if (record.last_step) return record.last_step->step;
  std::optional<int64_t> steps;
  for (const RankRecord& rank : record.ranks) {
    if (rank.measured) steps = std::max(steps.value_or(0), rank.measured->steps());
  }
  return steps;
}

// Ranks step together, so rank 0's last report says more than the last heartbeat of the one that
// failed.
int64_t failure_step(const RunRecord& record) {
  return std::max(steps_of(record).value_or(0), record.root_cause ? record.root_cause->step : 0);
}

std::string headline(const RunRecord& record) {
  const std::string when = fmt::format("after {}", format_duration(record.elapsed));
  const std::optional<int64_t> steps = steps_of(record);
  const std::string where = steps ? fmt::format("at step {}", *steps) : "before its first step";
  switch (record.exit_code) {
    case 0:
      return steps ? fmt::format("done: {} steps {}", *steps, when) : fmt::format("done {}", when);
    case 75:
      return fmt::format("stopped {} {} and saved ({})", where, when, record.reason);
    default:
      return fmt::format("ended {} {} with code {}{}", where, when, record.exit_code,
                         record.root_cause ? "" : fmt::format(" ({})", record.reason));
  }
}

}  // namespace

std::string failure_line(const RunRecord& record, FaultAction action) {
  JsonObject line;
  line.text("event", "fault").integer("code", record.exit_code);
  line.raw("rank", record.root_cause ? std::to_string(record.root_cause->rank) : "null");
  const bool elsewhere = record.root_cause && !record.circumstances.host.empty();
  line.text("host", elsewhere ? record.circumstances.host : record.host);
  line.integer("step", failure_step(record));
  line.raw("last_committed", record.last_commit ? json_string(record.last_commit->tag()) : "null");
  line.text("action", action == FaultAction::kRestart ? "restart" : "stop");
  line.text("cause", record.reason);
  return line.str();
}

namespace {

std::string goodput_json(const Goodput& spent) {
  JsonObject out;
  out.number("share", spent.share()).number("productive_s", spent.productive);
  out.number("lost_s", spent.lost).number("evaluation_s", spent.evaluation);
  out.number("checkpoint_s", spent.checkpoint).number("waiting_s", spent.waiting);
  out.number("starting_s", spent.starting).number("other_s", spent.other);
  return out.str();
}

}  // namespace

std::string report_json(const RunRecord& record) {
  JsonObject report;
  report.integer("exit_code", record.exit_code)
      .text("reason", record.reason)
      .raw("steps", json_or_null(steps_of(record)))
      .number("seconds", seconds_of(record.elapsed))
      .text("host", record.host)
      .integer("generation", record.epochs.empty() ? 0 : record.epochs.back().epoch)
      .integer("restarts", record.restarts)
      .integer("world_size", narrow<int64_t>(record.ranks.size()));
  report.number(
      "loss", record.last_step ? std::optional(record.last_step->values.at("loss")) : std::nullopt);
  report.raw("last_step", record.last_step ? step_json(*record.last_step) : "null");
  report.raw("goodput", goodput_json(record.goodput.total(record.elapsed)));
  report.raw("last_committed", commit_json(record.last_commit));
  report.raw("root_cause", record.root_cause ? cause_json(*record.root_cause) : "null");
  if (!record.bad_number.empty()) report.raw("first_bad_number", record.bad_number);
  std::string ranks;
  for (size_t rank = 0; rank < record.ranks.size(); ++rank) {
    ranks += fmt::format("{}\n  {}", rank == 0 ? "" : ",", rank_json(rank, record.ranks[rank]));
  }
  report.raw("ranks", fmt::format("[{}\n]", ranks));
  std::string epochs;
  for (const EpochRecord& epoch : record.epochs) {
    epochs += fmt::format("{}\n  {}", epochs.empty() ? "" : ",", epoch_json(epoch));
  }
  report.raw("generations", fmt::format("[{}\n]", epochs));
  return report.str() + "\n";
}

std::string failure_text(const RunRecord& record, const RunDirectory& directory) {
  if (!record.root_cause) {
    return "";
  }
  const Failure& cause = *record.root_cause;
  // A rank's own words say it best; the rest is for failures that have none.
  std::string text = cause.kind == Failure::Kind::kExit && !cause.detail.empty()
                         ? fmt::format("rank {}: {}", cause.rank, cause.detail)
                         : describe(cause);
  if (record.ranks.size() > 1) {
    text += fmt::format("\n  at step {}; all {} ranks were stopped", failure_step(record),
                        record.ranks.size());
  }
  return fmt::format(
      "{}\n{}  {:<10} {}{}", text, death_details(cause, record.circumstances), "log",
      directory.shown(directory.rank_log(cause.rank)),
      record.circumstances.words.note() ? ", with the stack where the signal struck" : "");
}

std::string closing_text(const RunRecord& record, const RunDirectory& directory) {
  std::string text = headline(record);
  const auto row = [&](std::string_view what, const fs::path& path) {
    text += fmt::format("\n  {:<11} {}", what, directory.shown(path));
  };
  const auto row_if_written = [&](std::string_view what, const std::string& name) {
    if (std::ranges::count(record.written, name) > 0) row(what, directory.file(name));
  };
  row("run", directory.path());
  row_if_written("metrics", "metrics.jsonl");
  row_if_written("plot", "loss.svg");
  row_if_written("report", "report.json");
  if (record.last_commit) {
    row("checkpoint", directory.file("checkpoints") / record.last_commit->tag());
  }
  std::error_code error;  // a run may not have been asked for one
  if (record.exit_code == 0 && fs::exists(directory.file("final"), error)) {
    row("model", directory.file("final"));
  }
  row("logs", directory.file("logs"));
  if (record.exit_code == static_cast<int>(ExitCode::kRequeue)) {
    text += fmt::format("\n  {:<11} the same command with --run-dir {}", "continue",
                        directory.shown(directory.path()));
  }
  return text;
}

}  // namespace ds
