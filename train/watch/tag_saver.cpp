#include "train/watch/tag_saver.h"

#include <chrono>
#include <vector>

#include "core/status/failpoint.h"
#include "core/tasks/clock.h"
#include "train/engine_pieces.h"
#include "train/measure/step_note.h"

namespace ds {

bool TagSaver::needs_edge(int64_t steps_done) const {
  return schedule_.wants(steps_done) && saved_step_ != steps_done;
}

void TagSaver::at_edge(int64_t steps_done) {
  if (!needs_edge(steps_done)) return;
  if (engine_.skipped_last()) {
    schedule_.put_off(steps_done);
  } else {
    save_and_go_on();
  }
}

void TagSaver::before_exit(RunEnd end) {
  if (end == RunEnd::kDone) require_updates();
  if (end == RunEnd::kDone && !options_.at_end) return;
  if (saved_step_ != engine_.step()) insist([this] { save(); });
  if (end != RunEnd::kDone) return;
  DS_FAILPOINT("train.before_export");
  progress("export");
  insist([this] {
    const std::string damaged = checkpoints_.export_model(options_.model_folder, options_.frame);
    if (damaged.empty()) return;
    warn(
        fmt::format("the checkpoint with the least validation loss is damaged, and final/ has the "
                    "last state: {}",
                    damaged));
  });
  DS_FAILPOINT("train.exported");
}

// A model as it was at the start is none that was trained.
void TagSaver::require_updates() const {
  if (engine_.step() == 0 || engine_.updates() > 0) return;
  throw ValidationError(fmt::format(
      "none of the {} steps has changed the weights: the gradients of each overflowed, at last "
      "with "
      "the loss scale {}; begin with a smaller one (fp16.initial_scale_power, fp16.loss_scale), or "
      "give it more steps to come down",
      engine_.step(), engine_.scaling().scaler.scale));
}

// Every rank throws the same IoError, so all of them go on alike.
bool TagSaver::save_and_go_on() {
  try {
    save();
    return true;
  } catch (const IoError& failure) {
    const double pace = engine_.host().gather(std::vector<double>{step_seconds_})[0];
    if (!schedule_.failed(engine_.step(), pace)) throw;
    warn(fmt::format("{}; training goes on, and it is tried again soon", failure.what()));
    return false;
  }
}

bool TagSaver::save_and_keep() {
  return save_and_go_on() && checkpoints_.keep_always(default_tag(engine_.step()));
}

void TagSaver::save() {
  constexpr int64_t kMiB = int64_t{1} << 20;
  progress("save", (owned_bytes(engine_) + kMiB - 1) / kMiB);
  DS_FAILPOINT("train.before_save");
  const auto before = std::chrono::steady_clock::now();
  // What was said last goes with the state: it may be lost with this rank before the launcher hears
  // it.
  checkpoints_.set_note(options_.rank == 0 ? to_notes(reports_.untaken_steps()) : "");
  SavedTag tag = checkpoints_.save();
  tag.seconds = seconds_since(before);
  DS_FAILPOINT("train.saved");
  saved_step_ = engine_.step();
  schedule_.saved();
  if (options_.rank == 0) reports_.report_commit(tag);
}

void TagSaver::insist(const std::function<void()>& part) {
  for (int tried = 1;; ++tried) {
    try {
      part();
      return;
    } catch (const IoError& failure) {
      if (tried == kTriesAtTheEnd) throw;
      if (tried == 1) warn(fmt::format("{}; it is tried again for half a minute", failure.what()));
      options_.pause();
    }
  }
}

void TagSaver::progress(const char* phase, int64_t total) {
  reports_.report_progress(
      {.step = engine_.step(), .micro_step = 0, .phase = phase, .total = total});
}

void TagSaver::warn(const std::string& what) {
  if (options_.rank == 0) reports_.report_text("warning: " + what);
}

}  // namespace ds
