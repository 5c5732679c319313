// A rank's end of the control connection: join, progress, reports up; commands down.
// Thread-safe. Nothing but join() and finish() waits; reports are queued and sent by a thread of
// the connection, so that a slow launcher never slows training.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/contract/link_board.h"
#include "core/status/error.h"
#include "rankd/control/bootstrap.h"
#include "train/settings/job.h"
#include "train/settings/run_reports.h"

namespace ds {

class ControlClient : public RunReports {
 public:
  // Says hello and waits until the launcher has a plan for the whole world.
  // Throws Error(kClusterUnusable) when refused (the message says why) or when nobody answers.
  virtual JobPlan join() = 0;

  // Asked before every heartbeat, from another thread, as long as the connection lives.
  virtual void watch_collectives(std::function<CollectiveMark()> newest) = 0;

  // Whose troubles every heartbeat tells.
  virtual void watch_links(std::shared_ptr<const LinkBoard> board) = 0;

  // Called by another thread when the launcher asks what this rank does, however stuck training is.
  virtual void on_dump(std::function<void()> dump) = 0;

  // Reports that so many bytes were read or written since the call before; any thread may call it.
  // If the phase reads or writes files, its micro-steps are MiB.
  virtual void report_moved(int64_t bytes) = 0;

  virtual void report_plan(std::string_view plan_json) = 0;    // rank 0: becomes plan.json
  virtual void report_measured(const Measured& measured) = 0;  // every rank, before it returns

  // Rank 0, where it generates: bytes for standard output, in order.
  virtual void report_generated(std::string text) = 0;

  // Every rank, of a step that was not finite: one JSON object, part of report.json.
  virtual void report_bad_number(std::string_view json) = 0;

  // The next command not yet handed out; each is handed out once. Ranks may see a command at
  // different step edges, so the training loop must agree on the step (a maximum over the ranks)
  // before it acts.
  virtual std::optional<Command> poll() = 0;
  // What comes with the next kTrace whose order was not taken yet; taken once for each.
  virtual TraceOrder take_trace_order() = 0;
  // A piece of what was recorded, in order; `last`: nothing more comes of that trace.
  virtual void report_trace(std::string text, bool last) = 0;

  // Sends everything queued, then how this rank ends, and waits until the launcher has taken it,
  // however long that stands still. Returns false if the launcher could not be told. `error` is
  // empty on success.
  virtual bool finish(ExitCode code, ErrorOrigin origin, std::string_view error) = 0;
};

// Opens the control connection; nothing is sent before join(). `lost` is called, by a thread of the
// connection, when the launcher's end of it goes before finish(). `data_endpoint` is where this
// rank listens for data, empty where it does not.
std::unique_ptr<ControlClient> connect_control(const Bootstrap& bootstrap,
                                               std::function<void()> lost = {},
                                               const std::string& data_endpoint = "");

}  // namespace ds
