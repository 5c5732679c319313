// Goodput says where the time of a run went (pure): how much of it trained steps that stand, and
// what took the rest. All figures are seconds, and add up to the run.
#pragma once

#include <cstdint>
#include <vector>

#include "core/values/step_metrics.h"
#include "launcher/decide/text/clock_time.h"

namespace ds {

struct Goodput {
  double productive = 0;  // steps that stand
  double lost = 0;        // steps that were trained again after a fault
  double evaluation = 0;
  double checkpoint = 0;
  double waiting = 0;   // paused
  double starting = 0;  // of ranks: plan, connections, loading, up to the first step
  double other = 0;     // the launcher's: processes, faults until they are noticed, the end
  double share() const {
    const double all = productive + lost + evaluation + checkpoint + waiting + starting + other;
    return all > 0 ? productive / all : 0;
  }
};

class GoodputAccount {
 public:
  // As rank 0 reports it. A step that is not beyond the last one begins anew there.
  void step(const StepMetrics& metrics);
  void committed(double seconds) { sums_.checkpoint += seconds; }
  Goodput total(Time elapsed) const;

 private:
  int64_t first_ = 1;          // step of the first element
  std::vector<double> steps_;  // seconds of those that stand
  Goodput sums_{};             // all but what follows from the steps
};

}  // namespace ds
