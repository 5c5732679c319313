// Who watches training without changing what a step computes: metrics, saving, memory, audits. The
// loop tells a list that is built once; a new watcher is a class of its own and a row in that list.
// All ranks have those that call collectives at the same places of their lists, and each is told
// the same things in the same order on every rank.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/settings/job.h"

namespace ds {

struct PipelineInstruction;  // model/parallel/pipeline_schedule.h

// A step that is over, its evaluation included.
struct StepReport {
  int64_t step = 0;    // 1 for the first
  double seconds = 0;  // on this rank, without the evaluation
  Metrics metrics{};   // of the engine, and of the evaluation if there was one
};

enum class RunEnd { kDone, kStopped };  // kStopped: asked to, with steps left

class StepObserver {
 public:
  virtual ~StepObserver() = default;

  // Once, before the first step; `note`: rank 0's, kept with the state that was loaded.
  virtual void after_load(const std::string& /*note*/) {}
  // `steps_done`: optimizer steps; the running one is not among them.
  virtual void before_micro_step(int64_t /*steps_done*/, int /*micro_step*/) {}
  // Which samples this rank trains on in that micro-step.
  virtual void on_samples(int64_t /*steps_done*/, int /*micro_step*/,
                          std::span<const int64_t> /*samples*/) {}
  // Around each instruction of a step, where it is given to the stream. Not told of those that are
  // replayed as parts of a graph.
  virtual void before_instruction(int64_t /*steps_done*/, const PipelineInstruction&) {}
  virtual void after_instruction(int64_t /*steps_done*/, const PipelineInstruction&) {}
  virtual void after_step(const StepReport& /*report*/) {}
  // Whether at_edge() has something to do after that many steps. Where results come late, the run
  // asks before it begins the step after, and passes an edge that nobody needs.
  virtual bool needs_edge(int64_t /*steps_done*/) const { return false; }
  // At the edge after a step, with no step under way, when the commands that all ranks agreed on
  // are done and the run was not told to stop. Also after the last step.
  virtual void at_edge(int64_t /*steps_done*/) {}
  virtual void before_exit(RunEnd /*end*/) {}
  // Adds what it knows to what the run came to.
  virtual void measure(Measured& /*measured*/) const {}
};

// Tells all of its members, in the order in which they were added.
class StepObservers final : public StepObserver {
 public:
  template <class Observer>
  Observer& add(std::unique_ptr<Observer> observer) {
    Observer& added = *observer;
    members_.push_back(std::move(observer));
    return added;
  }

  void after_load(const std::string& note) override;
  void before_micro_step(int64_t steps_done, int micro_step) override;
  void on_samples(int64_t steps_done, int micro_step, std::span<const int64_t> samples) override;
  void before_instruction(int64_t steps_done, const PipelineInstruction& instruction) override;
  void after_instruction(int64_t steps_done, const PipelineInstruction& instruction) override;
  void after_step(const StepReport& report) override;
  bool needs_edge(int64_t steps_done) const override;
  void at_edge(int64_t steps_done) override;
  void before_exit(RunEnd end) override;
  void measure(Measured& measured) const override;

 private:
  std::vector<std::unique_ptr<StepObserver>> members_;
};

}  // namespace ds
