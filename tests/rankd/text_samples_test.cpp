// What a model that is being trained goes on with after a prompt: the same text on any number of
// ranks and at any stage, that of whole passes over the text, in the memory that was planned.
#include <rapidjson/document.h>

#include <algorithm>

#include "comm/shm/comm.h"
#include "core/text/utf8.h"
#include "data/tokenizer/tokenizer.h"
#include "generate/settings.h"
#include "rankd/training.h"
#include "tests/rankd/deaf_control.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "train/evaluate/token_sampler.h"
#include "train/model_source.h"

using namespace ds;
using namespace ds::testing;

namespace {

using Lines = std::vector<std::string>;

// Writes down the samples, and what memory was planned and taken.
class SampleControl final : public DeafControl {
 public:
  explicit SampleControl(const JobPlan& plan)
      : DeafControl(plan), heard_(fmt::format("{}/heard-{}", plan.run_dir, plan.rank)) {}
  void report_text(std::string_view line) override {
    if (line.starts_with("sample") || line.starts_with("no sample")) heard_ << line << std::endl;
  }
  void report_plan(std::string_view plan_json) override {
    rapidjson::Document plan;
    plan.Parse(plan_json.data(), plan_json.size());
    planned_ = plan["ranks"][0]["device_bytes_peak"].GetInt64();
  }
  void report_measured(const Measured& measured) override {
    if (planned_ > 0) heard_ << (planned_ == measured.device_bytes_peak) << std::endl;
  }

 private:
  std::ofstream heard_;
  int64_t planned_ = 0;
};

// Trains as processes; returns what rank 0 says.
Lines train(JobPlan common) {
  common.shm_name = random_shm_name();
  std::vector<std::function<void()>> bodies;
  for (int rank = 0; rank < common.world_size; ++rank) {
    bodies.emplace_back([=] {
      JobPlan plan = common;
      plan.rank = plan.local_rank = rank;
      SampleControl control(plan);
      TcpListener listener;
      ds::test::require(run_training(plan, control, listener) == 0, "training did not end with 0");
    });
  }
  ds::test::check_all_done(ds::test::run_processes(bodies));
  std::ifstream file(common.run_dir + "/heard-0");
  Lines lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

constexpr const char* kTrain =
    R"("steps": 6, "eval_every": 4, "seed": 7, "sample_prompt": "12 é", "sample_length": 20)";

// What follows from the model as it was saved, by a whole pass for each token.
std::string drawn_by_whole_passes(const std::string& run_dir, uint64_t seed, uint64_t step) {
  RealFileSystem files;
  LoadedModel loaded(open_model_source(files, {run_dir + "/final"}), DType::kF32, ModelPlace{});
  TokenSampler sampler({}, {});
  const Rng rng = Rng(seed, "text sample").derive(step);
  std::string text = "12 é";
  while (text.size() < 20) {
    const std::vector<int32_t> ids = ByteTokenizer().encode(text);
    Tensor tokens =
        Tensor::empty({1, static_cast<int64_t>(ids.size())}, DType::kI32, loaded.stream());
    loaded.stream().copy(ids.data(), tokens.address(), tokens.bytes());
    Context context = loaded.context();
    const Tensor scores = loaded.model().next_logits(context, tokens);
    std::vector<float> logits(256);
    loaded.stream().copy(scores.address(), logits.data(), scores.bytes());
    text += static_cast<char>(sampler.draw(logits, rng.uniform(ids.size())));
  }
  return text;
}

std::string config_with(const std::filesystem::path& folder, int ranks, int stage,
                        const char* train) {
  return config_of(folder, {.ranks = ranks, .stage = stage, .train = train});
}

}  // namespace

TEST_CASE("samples of text come with evaluations, alike on any ranks, as planned", "[rankd]") {
  const TemporaryDirectory folder;
  const auto samples_of = [&](int ranks, int stage, const std::string& name) {
    const std::string config = config_with(folder.path(), ranks, stage, kTrain);
    return train(plan_of(folder.path() / name, ranks, config));
  };
  const Lines alone = samples_of(1, 0, "alone");
  REQUIRE(alone.size() == 3);
  CHECK_THAT(alone[0], Catch::StartsWith(R"(sample after step 4: "12 é)"));
  CHECK_THAT(alone[1], Catch::StartsWith(R"(sample after step 6: "12 é)"));
  CHECK(alone[0].substr(20) != alone[1].substr(20));
  CHECK(alone[2] == "1");  // memory as planned
  const std::string text = drawn_by_whole_passes((folder.path() / "alone").string(), 7, 6);
  CHECK(alone[1] == "sample after step 6: " + to_compact_json(Value::string(as_utf8(text))));
  const Lines whole = samples_of(2, 0, "stage-0");
  REQUIRE(whole.size() == 3);
  for (const int stage : {1, 2, 3}) {
    CAPTURE(stage);
    CHECK(samples_of(2, stage, fmt::format("stage-{}", stage)) == whole);
  }
}

TEST_CASE("ranks that share sequences go on with the text of one", "[rankd]") {
  const TemporaryDirectory folder;
  std::string config = config_with(folder.path(), 1, 0, kTrain);
  const Lines alone = train(plan_of(folder.path() / "alone", 1, config));
  config.insert(1, R"("sequence_parallel_size": 2, )");
  const Lines shared = train(plan_of(folder.path() / "shared", 2, config));
  REQUIRE(alone.size() == 3);
  CHECK(shared == alone);
}

TEST_CASE("where no text can be drawn a line says why, and training goes on", "[rankd]") {
  const TemporaryDirectory folder;
  const std::string config = config_of(
      folder.path(), {.ranks = 2,
                      .stage = 3,
                      .train = R"("steps": 1, "save_at_end": false, "sample_prompt": "a")",
                      .rate = "1e30"});
  const Lines heard = train(plan_of(folder.path() / "lost", 2, config));
  REQUIRE(heard.size() == 2);
  CHECK_THAT(heard[0], Catch::StartsWith("no sample after step 1: "));
}

TEST_CASE("samples are drawn as generate draws where nobody says how", "[rankd]") {
  const SamplerOptions generated = generation_settings(GenerateArgs{}, {}).sampler;
  const SamplerOptions sample;
  CHECK(sample.temperature == generated.temperature);
  CHECK(sample.temperature == DrawingArgs::kTemperature);
  CHECK(sample.top_k == generated.top_k);
  CHECK(sample.top_k == DrawingArgs::kTopK);
  CHECK(sample.top_p == 1);
  CHECK(sample.min_p == 0);
  CHECK(sample.repetition_penalty == 1);
}

TEST_CASE("a sample of text changes nothing of what is trained", "[rankd]") {
  const TemporaryDirectory folder;
  std::string weights;
  for (const char* keys : {R"("steps": 6, "seed": 7)", kTrain}) {
    const std::string config = config_with(folder.path(), 2, 3, keys);
    const JobPlan plan = plan_of(folder.path() / (keys == kTrain ? "asked" : "plain"), 2, config);
    train(plan);
    const std::string own = weights_in(plan.run_dir);
    CHECK(!own.empty());
    if (!weights.empty()) CHECK((own == weights));
    weights = own;
  }
}

TEST_CASE("a prompt that nothing can follow is refused before the first step", "[rankd]") {
  const TemporaryDirectory folder;
  const auto error_of = [&](const std::string& keys) -> std::string {
    const std::string config =
        config_of(folder.path(), {.train = R"("steps": 1, "sample_prompt": )" + keys});
    JobPlan plan = plan_of(folder.path() / "refused", 1, config);
    plan.shm_name = random_shm_name();
    DeafControl control(plan);
    TcpListener listener;
    try {
      run_training(plan, control, listener);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(error_of(R"("")"), Catch::Contains("train.sample_prompt: no text"));
  CHECK_THAT(error_of(R"("abcd", "sample_length": 4)"),
             Catch::Contains("train.sample_prompt: 4 tokens, and texts of train.sample_length end "
                             "after 4"));
  CHECK_THAT(error_of(R"("a", "sample_length": 33)"),
             Catch::Contains("train.sample_length: 33, but the model has 32 positions"));
}
