#include "rankd/training.h"

#include <fstream>
#include <iterator>

#include "tests/support/catch.h"
#include "tests/support/tcp_ranks.h"
#include "tests/support/temporary_directory.h"

using namespace ds;
using ds::testing::TemporaryDirectory;

namespace {

// A launcher that listens to nothing and commands nothing.
class DeafControl final : public ControlClient {
 public:
  explicit DeafControl(JobPlan plan) : plan_(std::move(plan)) {}
  JobPlan join() override { return plan_; }
  void report_progress(const Progress& /*progress*/) override {}
  void watch_collectives(std::function<CollectiveMark()> /*newest*/) override {}
  void watch_links(std::shared_ptr<const LinkBoard> /*board*/) override {}
  void on_dump(std::function<void()> /*dump*/) override {}
  void report_step(const StepMetrics& /*metrics*/) override {}
  std::vector<StepMetrics> untaken_steps() const override { return {}; }
  void report_commit(const SavedTag& /*tag*/) override {}
  void report_text(std::string_view /*line*/) override {}
  void report_plan(std::string_view /*plan_json*/) override {}
  void report_measured(const Measured& /*measured*/) override {}
  std::optional<Command> poll() override { return std::nullopt; }
  bool finish(ExitCode /*code*/, ErrorOrigin /*origin*/, std::string_view /*error*/) override {
    return true;
  }

 private:
  const JobPlan plan_;
};

std::string config_of(const std::filesystem::path& folder, int ranks, int stage) {
  std::ofstream corpus(folder / "corpus.txt");
  for (int i = 0; i < 500; ++i) corpus << i * i << '\n';
  return fmt::format(
      R"({{"model": {{"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32,
           "vocab_size": 256}},
          "data": {{"train": ["{}"], "tokenizer": "byte", "sequence_length": 32}},
          "train": {{"steps": 4}}, "train_batch_size": {},
          "optimizer": {{"type": "AdamW", "params": {{"lr": 0.001}}}},
          "zero_optimization": {{"stage": {}}}}})",
      (folder / "corpus.txt").string(), 2 * ranks, stage);
}

JobPlan plan_of(const std::filesystem::path& run_dir, int ranks, const std::string& config) {
  JobPlan plan;
  plan.world_size = plan.local_size = ranks;
  plan.config_text = config;
  plan.config_dir = plan.run_dir = run_dir.string();
  std::filesystem::create_directories(run_dir);
  return plan;
}

// Trains as processes, and returns the final weights. `place` tells a rank how to find the others.
template <class Place>
std::string final_weights(const JobPlan& common, const Place& place) {
  std::vector<std::function<void()>> bodies;
  for (int rank = 0; rank < common.world_size; ++rank) {
    bodies.emplace_back([=] {
      JobPlan plan = common;
      plan.rank = plan.local_rank = rank;
      TcpListener listener = place(plan);
      DeafControl control(plan);
      ds::test::require(run_training(plan, control, listener) == 0, "training did not end with 0");
    });
  }
  for (const auto& result : ds::test::run_processes(bodies)) {
    CHECK(result.error == "");
    CHECK(result.status == 0);
  }
  std::ifstream file(std::filesystem::path(common.run_dir) / "final" / "model.safetensors",
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("ranks that meet over TCP train to the bits of ranks that share memory", "[rankd]") {
  for (const int stage : {0, 2, 3}) {
    constexpr int kRanks = 2;
    CAPTURE(stage);
    const TemporaryDirectory folder;
    const std::string config = config_of(folder.path(), kRanks, stage);
    JobPlan shared = plan_of(folder.path() / "shared", kRanks, config);
    shared.shm_name = random_shm_name();
    const std::string by_memory = final_weights(shared, [](JobPlan&) { return TcpListener(); });
    const auto ranks = std::make_shared<ds::test::TcpRanks>(kRanks);
    const JobPlan apart = plan_of(folder.path() / "apart", kRanks, config);
    const std::string by_tcp = final_weights(apart, [ranks](JobPlan& plan) {
      plan.data_endpoints = ranks->world.endpoints;
      plan.data_secret = ranks->world.secret;
      return std::move(ranks->listeners[static_cast<size_t>(plan.rank)]);
    });
    CHECK(!by_memory.empty());
    CHECK((by_memory == by_tcp));
  }
}
