#include "train/watch/best_keeper.h"

#include <fmt/format.h>

#include <vector>

#include "checkpoint/tag.h"
#include "core/status/failpoint.h"

namespace ds {

void BestKeeper::restore() {
  const std::string& own = checkpoints_.restored_best();
  const auto all = engine_.host().gather_lists(std::vector<char>(own.begin(), own.end()));
  if (!best_.restore({all[0].begin(), all[0].end()}, options_.measure)) {
    options_.report(
        "note: validation data or losses are others than those of the checkpoint: the best "
        "evaluation is looked for from here on");
  }
  if (best_.loss()) restore_tag();
  hand_on();
}

// The tag of the best evaluation, if one is to be kept.
void BestKeeper::restore_tag() {
  if (!options_.keeps) return best_.saved_as("");
  if (checkpoints_.keep_always(best_.tag())) return;
  options_.report(fmt::format(
      "note: the state of step {}, which had the least validation loss, {}", best_.step(),
      best_.tag().empty() ? "was not kept" : "is not there any more: " + best_.tag()));
  best_.saved_as("");
  if (best_.is_over()) return;  // and stays so
  options_.report("note: the best evaluation is looked for from here on");
  best_.restore("", options_.measure);
}

void BestKeeper::hand_on() {
  const std::string text = best_.text(options_.measure);
  checkpoints_.set_best(text);
  if (options_.memory != nullptr) options_.memory->set_best(text);
}

void BestKeeper::hear(int64_t step, double loss) {
  if (engine_.updates() == 0) return;  // a model as it was at the start is none that was trained
  const bool is_best = best_.hear(step, loss);
  if (is_best && options_.keeps) {
    const std::string kept = best_.tag();
    best_.saved_as(default_tag(step));  // as the checkpoint itself is to say
    hand_on();
    DS_FAILPOINT("train.best_found");
    if (saver_.save_and_keep()) return;
    best_.saved_as(kept);
  }
  hand_on();
}

void BestKeeper::report_end() const {
  if (best_.is_over()) {
    const double threshold = options_.stopping.threshold;
    options_.report(fmt::format(
        "ended early, after step {} of {}: {} {} no better than {}{}", engine_.step(),
        options_.steps, best_.worse(),
        best_.worse() == 1 ? "evaluation was" : "evaluations in turn were",
        threshold > 0 ? "the best one before" : fmt::format("that of step {}", best_.step()),
        threshold > 0 ? fmt::format(", by more than {}", threshold) : ""));
  }
  if (!checkpoints_.keeps_always()) return;
  options_.report(fmt::format(
      "the least validation loss, {:.4f}, was that of step {}: {} is kept, and final/ has its "
      "weights",
      *best_.loss(), best_.step(), best_.tag()));
}

void BestKeeper::measure(Measured& measured) const {
  if (!best_.loss()) return;
  measured.results["best_validation_loss"] = *best_.loss();
  measured.results["best_step"] = static_cast<double>(best_.step());
}

}  // namespace ds
