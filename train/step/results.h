// The outcomes of steps that have been begun and not yet asked for: host copies in a ring, each
// with the event of its copy, so that no step overwrites what another has not delivered. Confined
// to the thread that begins steps. Refuses to judge an outcome.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/memory/host_block.h"
#include "kernels/step/scalars.h"

namespace ds {

enum class Wait { kNo, kYes };

class StepResults {
 public:
  static constexpr int kMost = 2;  // steps under way

  struct Entry {
    int64_t step = 0;
    StepOutcome outcome{};
    Event copied{};
  };

  // late: how many of the newest results are not there yet, as far as Wait::kNo is concerned.
  // Outcomes are copied to `pinned` memory, so that the copy does not make the host wait; null: to
  // the heap.
  explicit StepResults(int late, MemoryResource* pinned = nullptr);
  ~StepResults();                            // waits for its copies
  StepResults(const StepResults&) = delete;  // they are written to where it is
  StepResults& operator=(const StepResults&) = delete;

  void require_room() const;  // InternalError where kMost steps are under way
  // Copies the outcome of the work so far, as that of this step.
  void add(int64_t step, const StepScalars& scalars);
  // The oldest. Nothing where no step is under way, and with kNo where it is not there yet.
  std::optional<Entry> take(Wait wait);
  void drop_all();  // waits for their copies
  int count() const { return count_; }

 private:
  StepOutcome& place(int index) const;  // of the outcome of an entry of the ring

  const int late_;
  const HostBlock outcomes_;
  std::array<Entry, kMost> ring_;
  int oldest_ = 0;
  int count_ = 0;
};

}  // namespace ds
