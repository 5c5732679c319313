#include "train/settings/observers.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

class Noting final : public StepObserver {
 public:
  Noting(std::string name, std::vector<std::string>& heard)
      : name_(std::move(name)), heard_(heard) {}

  void after_load(const std::string& note) override { say("loaded " + note); }
  void before_micro_step(int64_t steps_done, int micro_step) override {
    say(fmt::format("micro-step {}.{}", steps_done, micro_step));
  }
  void on_samples(int64_t steps_done, int micro_step, std::span<const int64_t> samples) override {
    say(fmt::format("samples {}.{}: {}", steps_done, micro_step, samples.size()));
  }
  void after_step(const StepReport& report) override { say(fmt::format("step {}", report.step)); }
  void at_edge(int64_t steps_done) override { say(fmt::format("edge {}", steps_done)); }
  bool needs_edge(int64_t steps_done) const override { return steps_done == needed; }
  void before_exit(RunEnd end) override { say(end == RunEnd::kDone ? "done" : "stopped"); }
  void measure(Measured& measured) const override { measured.results[name_] = 1; }

  int64_t needed = -1;

 private:
  void say(const std::string& what) { heard_.push_back(name_ + " " + what); }

  const std::string name_;
  std::vector<std::string>& heard_;
};

TEST_CASE("observers hear everything, each after those that were added before it", "[train]") {
  std::vector<std::string> heard;
  StepObservers all;
  all.add(std::make_unique<Noting>("b", heard));
  Noting& second = all.add(std::make_unique<Noting>("a", heard));
  const auto expect = [&](const std::string& what) {
    CHECK(heard == std::vector<std::string>{"b " + what, "a " + what});
    heard.clear();
  };
  all.after_load("x");
  expect("loaded x");
  all.before_micro_step(3, 1);
  expect("micro-step 3.1");
  const std::array<int64_t, 2> samples{7, 8};
  all.on_samples(3, 1, samples);
  expect("samples 3.1: 2");
  all.after_step({.step = 4});
  expect("step 4");
  all.at_edge(4);
  expect("edge 4");
  CHECK_FALSE(all.needs_edge(4));
  second.needed = 4;
  CHECK(all.needs_edge(4));
  CHECK_FALSE(all.needs_edge(5));
  all.before_exit(RunEnd::kDone);
  expect("done");
  all.before_exit(RunEnd::kStopped);
  expect("stopped");
  Measured measured;
  all.measure(measured);
  CHECK(measured.results.size() == 2);
  second.at_edge(5);
  CHECK(heard == std::vector<std::string>{"a edge 5"});
}

TEST_CASE("an observer that knows nothing of an event lets it pass", "[train]") {
  class Indifferent final : public StepObserver {};
  StepObservers all;
  all.add(std::make_unique<Indifferent>());
  all.after_load("");
  all.before_micro_step(0, 0);
  all.on_samples(0, 0, {});
  all.after_step({});
  all.at_edge(1);
  all.before_exit(RunEnd::kDone);
  Measured measured;
  all.measure(measured);
  CHECK(measured.results.empty());
}

}  // namespace
}  // namespace ds
