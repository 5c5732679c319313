#include "train/watch/step_reports.h"

#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/train/heard_reports.h"
#include "train/measure/step_note.h"

namespace ds {
namespace {

std::vector<int64_t> said_again(int64_t told_step, const std::vector<int64_t>& kept) {
  std::vector<StepMetrics> steps(kept.size());
  for (size_t i = 0; i < kept.size(); ++i) steps[i].step = kept[i];
  testing::HeardReports heard;
  test::run_ranks(1, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    const Workspace workspace(Device::cpu(), 1, connections.peers());
    MetricsReport(heard, workspace, {.told_step = told_step}).after_load(to_notes(steps));
  });
  std::vector<int64_t> out;
  for (const StepMetrics& metrics : heard.steps) out.push_back(metrics.step);
  return out;
}

TEST_CASE("steps that a launcher missed are said again, and only those", "[train]") {
  using Steps = std::vector<int64_t>;
  CHECK(said_again(5, {4, 5, 6, 7}) == Steps{6, 7});
  CHECK(said_again(0, {1, 2}) == Steps{1, 2});
  CHECK(said_again(0, {6, 7}).empty());  // another launcher's, who had heard of 1 to 5
  CHECK(said_again(7, {6, 7}).empty());
  CHECK(said_again(0, {}).empty());
}

TEST_CASE("the metrics of a step are those of all ranks together", "[train]") {
  testing::HeardReports heard;
  test::run_ranks(1, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    const Tensor held = Tensor::empty({1000}, DType::kF32, workspace.stream());
    MetricsReport report(heard, workspace,
                         {.total_steps = 9,
                          .global_batch = 8,
                          .length = 16,
                          .samples_per_epoch = 16,
                          .generation = 2},
                         [] { return 1764201600.12345; });
    report.after_step({.step = 3, .seconds = 0.25, .metrics = {{"loss", 2.5}, {"lr", 0.125}}});
    MetricsReport untimed(heard, workspace,
                          {.total_steps = 9,
                           .global_batch = 8,
                           .length = 16,
                           .throughput = false,
                           .samples_per_epoch = 16});
    untimed.after_step({.step = 4, .seconds = 0.25, .metrics = {{"loss", 2.5}}});
  });
  REQUIRE(heard.steps.size() == 2);
  CHECK(!heard.steps[1].values.has("tokens_per_s"));  // timers.throughput.enabled: false
  const StepMetrics& said = heard.steps[0];
  CHECK(said.step == 3);
  CHECK(said.total_steps == 9);
  CHECK(said.values.find("loss") == 2.5);
  CHECK(said.values.find("lr") == 0.125);
  CHECK(said.values.find("tokens_per_s") == 512);
  CHECK(said.values.find("samples") == 24);
  CHECK(said.values.find("epoch") == 1.5);  // passes over the data
  CHECK(said.values.find("time") == 1764201600.123);
  CHECK(said.values.find("generation") == 2);
  CHECK(said.values.at("bytes_peak") >= 4000);
  CHECK(!said.values.has("validation_loss"));
}

TEST_CASE("progress is told at every micro-step", "[train]") {
  testing::HeardReports heard;
  ProgressReport(heard).before_micro_step(4, 1);
  CHECK(heard.take() == std::vector<std::string>{"train 4.1"});
}

}  // namespace
}  // namespace ds
