// When a run saves, and what follows when that fails (pure): a save that fails costs a tag, not the
// run. It is tried again at the next step edges, ever less often; only when several saves in a row
// that were due have failed is it the end, because the run then works for nothing. All ranks see
// the same failures at the same steps, so all of them decide alike; how long a step takes, they
// have from rank 0. Refuses to know what is saved.
#pragma once

#include <cstdint>
#include <optional>

namespace ds {

class SaveSchedule {
 public:
  // every: steps between saves that are due; 0: none but those that are asked for.
  SaveSchedule(int64_t every, int64_t last_step) : every_(every), last_step_(last_step) {}

  // Whether to save after this step: one is due, or one that failed is to be tried again.
  bool wants(int64_t step) const;
  void saved();
  // This step is not worth a save, because it changed nothing: the next one that does is saved.
  void put_off(int64_t step) { retry_at_ = step + 1; }
  // After a failure at this step. False: enough is enough.
  bool failed(int64_t step, double seconds_per_step);

  static constexpr int kMostFailures = 3;  // of saves that were due, in a row

 private:
  bool is_due(int64_t step) const { return every_ > 0 && step % every_ == 0 && step < last_step_; }

  const int64_t every_;
  const int64_t last_step_;
  int due_failures_ = 0;
  int tries_ = 0;  // since the last save that went well
  std::optional<int64_t> retry_at_;
};

}  // namespace ds
