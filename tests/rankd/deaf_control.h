// A launcher for tests of training, and a small run for it: it listens to nothing and commands
// nothing.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/status/error.h"
#include "rankd/control/control_client.h"

namespace ds::testing {

class DeafControl : public ControlClient {
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
  void report_moved(int64_t /*bytes*/) override {}
  void report_plan(std::string_view /*plan_json*/) override {}
  void report_measured(const Measured& /*measured*/) override {}
  void report_generated(std::string /*text*/) override {}
  void report_bad_number(std::string_view /*json*/) override {}
  std::optional<Command> poll() override { return std::nullopt; }
  TraceOrder take_trace_order() override { return {}; }
  void report_trace(std::string /*text*/, bool /*last*/) override {}
  bool finish(ExitCode /*code*/, ErrorOrigin /*origin*/, std::string_view /*error*/) override {
    return true;
  }

 private:
  const JobPlan plan_;
};

struct SmallRun {
  int ranks = 1;
  int stage = 0;
  std::string data = "";                // more keys of the section, after a comma
  std::string train = R"("steps": 4)";  // keys of the section
  std::string rate = "0.001";
};

inline std::string config_of(const std::filesystem::path& folder, const SmallRun& run) {
  std::ofstream corpus(folder / "corpus.txt");
  for (int i = 0; i < 500; ++i) corpus << i * i << '\n';
  return fmt::format(
      R"({{"model": {{"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32,
           "vocab_size": 256}},
          "data": {{"train": ["{}"], "tokenizer": "byte", "sequence_length": 32{}}},
          "train": {{{}}}, "train_batch_size": {},
          "optimizer": {{"type": "AdamW", "params": {{"lr": {}}}}},
          "zero_optimization": {{"stage": {}}}}})",
      (folder / "corpus.txt").string(), run.data, run.train, 2 * run.ranks, run.rate, run.stage);
}

inline JobPlan plan_of(const std::filesystem::path& run_dir, int ranks, const std::string& config) {
  JobPlan plan;
  plan.world_size = plan.local_size = ranks;
  plan.config_text = config;
  plan.config_dir = plan.run_dir = run_dir.string();
  std::filesystem::create_directories(run_dir);
  return plan;
}

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string weights_in(const std::string& run_dir) {
  return text_of(std::filesystem::path(run_dir) / "final" / "model.safetensors");
}

}  // namespace ds::testing
