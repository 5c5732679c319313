#include "train/watch/best_keeper.h"

#include <fmt/format.h>

#include <vector>

#include "checkpoint/tag.h"
#include "core/status/failpoint.h"

namespace ds {

void BestKeeper::restore() {
  const std::string& own = checkpoints_.restored_best();
  const auto all = engine_.host().gather_lists(std::vector<char>(own.begin(), own.end()));
  best_.restore({all[0].begin(), all[0].end()});
  hand_on();
  if (best_.tag().empty() || checkpoints_.keep_always(best_.tag())) return;
  options_.report(
      fmt::format("note: {}, which had the least validation loss, is not there any more: the best "
                  "one is looked for from here on",
                  best_.tag()));
  best_.restore("");
  hand_on();
}

void BestKeeper::hand_on() {
  checkpoints_.set_best(best_.text());
  if (options_.memory != nullptr) options_.memory->set_best(best_.text());
}

void BestKeeper::hear(int64_t step, double loss) {
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
    options_.report(fmt::format(
        "ended early, after step {} of {}: {} evaluations in turn were no better than that of step "
        "{}",
        engine_.step(), options_.steps, best_.worse(), best_.step()));
  }
  if (best_.tag().empty()) return;
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
