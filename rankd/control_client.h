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

#include "comm/link_board.h"
#include "core/error.h"
#include "train/job.h"

namespace ds {

class ControlClient {
 public:
  virtual ~ControlClient() = default;

  // Says hello and waits until the launcher has a plan for the whole world.
  // Throws Error(kClusterUnusable) when refused (the message says why) or when nobody answers.
  virtual JobPlan join() = 0;

  // Call at every micro-step and phase change: a rank that does not progress counts as hung.
  virtual void report_progress(const Progress& progress) = 0;

  // Asked before every heartbeat, from another thread, as long as the connection lives.
  virtual void watch_collectives(std::function<CollectiveMark()> newest) = 0;

  // Whose troubles every heartbeat tells.
  virtual void watch_links(std::shared_ptr<const LinkBoard> board) = 0;

  // Called by another thread when the launcher asks what this rank does, however stuck training is.
  virtual void on_dump(std::function<void()> dump) = 0;

  virtual void report_step(const StepMetrics& metrics) = 0;  // rank 0
  // Those that the launcher has not taken yet, oldest first: lost with this process, unless
  // somebody says them again.
  virtual std::vector<StepMetrics> untaken_steps() const = 0;
  virtual void report_commit(const SavedTag& tag) = 0;  // rank 0, after the manifest is durable
  virtual void report_text(std::string_view line) = 0;  // rank 0: a line for the user
  virtual void report_plan(std::string_view plan_json) = 0;    // rank 0: becomes plan.json
  virtual void report_measured(const Measured& measured) = 0;  // every rank, before it returns

  // The next command not yet handed out; each is handed out once. Ranks may see a command at
  // different step edges, so the training loop must agree on the step (a maximum over the ranks)
  // before it acts.
  virtual std::optional<Command> poll() = 0;

  // Sends everything queued, then how this rank ends, and waits until the launcher has taken it,
  // however long that stands still. Returns false if the launcher could not be told. `error` is
  // empty on success.
  virtual bool finish(ExitCode code, ErrorOrigin origin, std::string_view error) = 0;
};

}  // namespace ds
