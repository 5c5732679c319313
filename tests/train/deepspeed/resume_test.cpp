// Training that goes on from checkpoints of DeepSpeed (tests/golden/deepspeed/make.py): its losses
// are those with which DeepSpeed itself went on, whatever ranks, stage and tier go on here.
#include <filesystem>
#include <fstream>

#include "config/families/hf_config.h"
#include "config/reader/json_reader.h"
#include "config/reader/value.h"
#include "core/files/file.h"
#include "optim/loss_scaler.h"
#include "tests/support/catch.h"
#include "tests/support/files/unpack.h"
#include "tests/support/golden.h"
#include "tests/train/runs/small_run.h"

namespace ds {
namespace {

using namespace testing;
namespace fs = std::filesystem;

constexpr int64_t kLength = 8, kSamples = 4, kBefore = 3, kAfter = 5;
// Losses in fp32 are 4e-7 apart at most; from the weights alone they are 0.04 and more.
constexpr double kWithin = 2e-6;

std::string fixture(const std::string& name) {
  return testing::source_directory() + "/tests/golden/deepspeed/" + name;
}

// What make.py trains on: samples follow each other in a row of tokens.
class GoldenSource final : public BatchSource {
 public:
  GoldenSource(const EngineOptions& options, const Mesh& mesh) : options_(options), mesh_(mesh) {}

  void fill(int64_t step, int micro_step, const MicroBatch& out) override {
    for (int64_t row = 0; row < options_.micro_batch; ++row) {
      const int64_t first = (step * kSamples + first_sample(micro_step) + row) * kLength;
      for (int64_t at = 0; at < kLength; ++at) {
        const auto to = to_size(row * kLength + at);
        put(out, batch_field::kTokens, to, token(first + at));
        put(out, batch_field::kTargets, to, token(first + at + 1));
        put(out, batch_field::kPositions, to, at);
      }
    }
  }
  int64_t first_sample(int micro_step) const override {
    return (micro_step * mesh_.size(Axis::kData) + mesh_.coordinate(Axis::kData)) *
           options_.micro_batch;
  }

 private:
  static int64_t token(int64_t place) { return (place * place * 7 + place * 3 + place / 5) % 64; }
  static void put(const MicroBatch& out, std::string_view field, size_t at, int64_t value) {
    if (out.has(field)) out.values<int32_t>(field)[at] = static_cast<int32_t>(value);
  }

  const EngineOptions& options_;
  const Mesh& mesh_;
};

std::vector<double> losses_of(const std::string& name,
                              const std::string& path = fixture("losses.json")) {
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const Value all = read_config_document(text, "losses.json");
  std::vector<double> losses;
  const Value* own = all.find(name);
  REQUIRE(own != nullptr);
  for (const Value& loss : own->items()) losses.push_back(loss.as_number());
  REQUIRE(std::ssize(losses) == kBefore + kAfter);
  return {losses.begin() + kBefore, losses.end()};
}

// As make.py configures DeepSpeed, which clips gradients at 1 where nothing is said.
EngineOptions golden_options(Setting setting, const std::string& name) {
  RealFileSystem files;
  setting.global_batch = kSamples;
  EngineOptions options = options_of(setting);
  options.model =
      read_hf_config(files, fixture(name.ends_with("frozen") ? "zero2_frozen" : "zero2_fp32"));
  if (name.ends_with("narrow")) std::get<Gpt2Config>(options.model).n_inner = 24;
  options.length = kLength;
  options.optimizer = {.type = OptimizerType::kAdamW,
                       .adam = {.lr = 0.01, .betas = {0.9, 0.95}, .weight_decay = 0.1}};
  options.schedule = {.type = SchedulerType::kWarmupLR,
                      .warmup = {.warmup_min_lr = {0.001},
                                 .warmup_max_lr = std::vector{0.01},
                                 .warmup_num_steps = 6,
                                 .warmup_type = WarmupType::kLinear}};
  return options;
}

struct Continued {
  int64_t step = 0;
  std::vector<double> losses, scales, skipped;
  std::vector<std::string> notices;
  TierUsage measured{}, planned{};
};

struct Job {
  std::string from;
  bool accept_changes = false;
  ResumeMode resume = ResumeMode::kAuto;
  int64_t until = kBefore + kAfter;
};

// Loads, trains and saves in a run directory.
Continued run_in(const fs::path& run, const Setting& setting, const EngineOptions& options,
                 const Job& what) {
  const RunPlan plan = dry_run(options, mesh_of(setting), {});
  const TemporaryDirectory swap;
  RealFileSystem files;
  Continued out;
  test::run_ranks(setting.ranks, [&](Communicator& comm) {
    with_rank(
        comm, setting.host_access,
        [&](auto& rank) {
          RankResources resources = rank.resources();
          const auto opener = [&](const char* of) {
            return swap_opener(
                {.nvme_path = swap.path().string(),
                 .of = of,
                 .owner = {.job = "test", .rank = comm.rank(), .world = comm.size()}});
          };
          resources.open_weight_swap = opener("parameters");
          resources.open_state_swap = opener("state");
          Engine engine(options, resources, plan.of_rank(comm.rank()).step);
          JobPlan job;
          job.rank = comm.rank();
          job.world_size = comm.size();
          job.run_dir = run.string();
          job.accept_changes = what.accept_changes;
          job.resume = what.resume;
          Checkpointing checkpoints(engine, files, job, {.resume_from = what.from});
          const int64_t step = checkpoints.load(std::nullopt);
          engine.restore_step(step);
          GoldenSource source(options, resources.peers.mesh);
          const auto results = rank.run([&] { return train_until(engine, source, what.until); });
          rank.run([&] { return engine.evaluate(source, 1); });
          checkpoints.save();
          if (comm.rank() != 0) return;
          for (const StepResult& result : results) {
            out.losses.push_back(result.metrics.at("loss"));
            out.scales.push_back(result.metrics.at("loss_scale"));
            out.skipped.push_back(result.metrics.at("skipped_steps"));
          }
          out.step = step;
          out.notices = checkpoints.notices();
          out.measured = rank.tiers();
        },
        setting.devices, plan.mesh);
  });
  out.planned = plan.of_rank(0).memory;
  return out;
}

Continued continue_from(const std::string& name, const Setting& setting) {
  const TemporaryDirectory run;
  return run_in(run.path(), setting, golden_options(setting, name), {.from = fixture(name)});
}

void check_losses(const std::vector<double>& got, const std::vector<double>& expected,
                  double within) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i, got[i], expected[i]);
    CHECK(std::abs(got[i] - expected[i]) <= within);
  }
}

bool says(const Continued& continued, const std::string& what) {
  return std::ranges::any_of(continued.notices, [&](const std::string& notice) {
    return notice.find(what) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("training goes on from a checkpoint of DeepSpeed as DeepSpeed does", "[train]") {
  for (const auto& [name, ranks, stage] : {std::tuple("zero0_narrow", 1, 0),
                                           {"zero1_narrow", 1, 1},
                                           {"zero2_fp32", 2, 2},
                                           {"zero3_fp32", 2, 3}}) {
    CAPTURE(name);
    const Continued got = continue_from(name, {.ranks = ranks, .stage = stage});
    CHECK(got.step == kBefore);
    check_losses(got.losses, losses_of(name), kWithin);
    CHECK(says(got, fmt::format("resumed step=3 from={}", fixture(name))));
    CHECK(says(got, fmt::format("(DeepSpeed 0.19.8, ZeRO stage {}, {} rank", stage, ranks)));
  }
}

TEST_CASE("a checkpoint of DeepSpeed is gone on with by any ranks at any stage", "[train]") {
  const std::vector<double> expected = losses_of("zero2_fp32");
  for (const char* name : {"zero2_fp32", "zero3_fp32"}) {
    for (const int ranks : {1, 2, 4}) {
      for (int stage = 0; stage <= 3; ++stage) {
        CAPTURE(name, ranks, stage);
        check_losses(continue_from(name, {.ranks = ranks, .stage = stage}).losses, expected,
                     kWithin);
      }
    }
  }
  check_losses(continue_from("zero2_fp32", {.micro_steps = 2}).losses, expected, kWithin);
  check_losses(continue_from("zero3_fp32", {.ranks = 2, .tensor = 2}).losses, expected, kWithin);
  check_losses(continue_from("zero2_fp32", {.ranks = 2, .pipe = 2, .micro_steps = 2}).losses,
               expected, kWithin);
}

TEST_CASE("state that is offloaded goes on from a checkpoint of DeepSpeed, in planned memory",
          "[train]") {
  const std::vector<double> expected = losses_of("zero3_fp32");
  for (const Setting& setting :
       {Setting{.ranks = 2, .stage = 2},
        {.ranks = 2, .stage = 2, .state = Tier::kHost},
        {.ranks = 2, .stage = 3, .state = Tier::kNvme},
        {.ranks = 2, .stage = 3, .params = Tier::kHost, .state = Tier::kHost}}) {
    CAPTURE(setting.stage, static_cast<int>(setting.state), static_cast<int>(setting.params));
    const Continued got = continue_from("zero3_fp32", setting);
    check_losses(got.losses, expected, kWithin);
    for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kPinned, Tier::kNvme}) {
      CAPTURE(static_cast<int>(tier));
      CHECK(nth(got.measured, tier).bytes_peak == nth(got.planned, tier).bytes_peak);
    }
  }
}

// Numbers of eight bits are summed in another order, and differ by 0.0016 at most: DeepSpeed's own
// losses over one and two ranks differ by 0.002. From the weights alone they are 0.09 and more.
TEST_CASE("a bf16 checkpoint of DeepSpeed is gone on with, from its fp32 masters", "[train]") {
  for (const auto& [name, ranks, stage] :
       {std::tuple("zero1_bf16", 1, 1), {"zero2_bf16", 2, 2}, {"zero3_bf16", 2, 3}}) {
    CAPTURE(name);
    const Continued got =
        continue_from(name, {.ranks = ranks, .stage = stage, .dtype = DType::kBF16});
    check_losses(got.losses, losses_of(name), 0.004);
  }
}

// The first step overflowed, and behind the eighth, where losses.json ends, the scale doubles,
// after six that did not. Numbers of eleven bits are summed in another order.
TEST_CASE("an fp16 checkpoint of DeepSpeed is gone on with, its scale and its skipped steps too",
          "[train]") {
  const Setting setting{.ranks = 2,
                        .stage = 2,
                        .dtype = DType::kF16,
                        .loss_scale = loss_scale_rule(
                            {.initial_scale_power = 17, .loss_scale_window = 6, .hysteresis = 1})};
  const EngineOptions options = golden_options(setting, "zero2_fp16");
  const TemporaryDirectory run;
  Continued got = run_in(run.path(), setting, options,
                         {.from = fixture("zero2_fp16"), .until = kBefore + kAfter + 1});
  CHECK(got.scales == std::vector<double>{65536, 65536, 65536, 65536, 65536, 131072});
  CHECK(got.skipped.front() == 1);
  got.losses.pop_back();
  check_losses(got.losses, losses_of("zero2_fp16"), 0.001);
  const Continued anew = continue_from("zero2_fp32", setting);
  CHECK(says(anew, "begins anew"));
  CHECK(anew.scales.front() == 131072);
}

// Losses of halves are 0.0024 apart at most, as gradients are not clipped; those of 0.14.5 itself
// over one and two ranks are 0.02 and more.
TEST_CASE("checkpoints of older versions of DeepSpeed are gone on with", "[train]") {
  const LossScaleRule fp16_rule =
      loss_scale_rule({.initial_scale_power = 17, .loss_scale_window = 6, .hysteresis = 1});
  for (const auto& [version, name, setting, within] :
       {std::tuple("0.14.5", "zero2_fp16",
                   Setting{.ranks = 2, .stage = 2, .dtype = DType::kF16, .loss_scale = fp16_rule},
                   0.004),
        {"0.14.5", "zero3_bf16", {.ranks = 2, .stage = 3, .dtype = DType::kBF16}, 0.004},
        {"0.19.6", "zero3_fp32", {.ranks = 2, .stage = 3}, kWithin}}) {
    CAPTURE(version, name);
    const TemporaryDirectory place, run;
    unpack(fixture(fmt::format("v{}_{}.zip", version, name)), place.path());
    EngineOptions options = golden_options(setting, name);
    if (version == std::string("0.14.5")) options.gradient_clipping = 0;  // its default
    const Continued got = run_in(run.path(), setting, options, {.from = place.path().string()});
    CHECK(says(got, fmt::format("(DeepSpeed {}, ZeRO stage", version)));
    check_losses(got.losses, losses_of(name, (place.path() / "losses.json").string()), within);
  }
}

// Each rank had the embeddings of that Llama whole. Numbers of eight bits are summed in another
// order.
TEST_CASE("what tensor-parallel ranks of DeepSpeed saved is gone on with by any mesh", "[train]") {
  for (const auto& [name, setting, within] :
       {std::tuple("tensor_zero0_fp32", Setting{.ranks = 1}, kWithin),
        {"tensor_zero2_fp32", {.ranks = 2, .stage = 2}, kWithin},
        {"tensor_zero2_fp32", {.ranks = 2, .tensor = 2}, kWithin},
        {"tensor_zero3_fp32", {.ranks = 2, .stage = 3}, kWithin},
        {"tensor_zero1_bf16", {.ranks = 1, .stage = 1, .dtype = DType::kBF16}, 0.004},
        {"tensor_untold", {.ranks = 2, .stage = 1, .dtype = DType::kBF16}, 0.004}}) {
    CAPTURE(name, setting.tensor);
    const TemporaryDirectory place, run;
    unpack(fixture(fmt::format("{}.zip", name)), place.path());
    EngineOptions options = golden_options(setting, name);
    RealFileSystem files;
    options.model = read_hf_config(files, place.path().string());
    const Continued got = run_in(run.path(), setting, options, {.from = place.path().string()});
    CHECK(says(got, "tensor parallel over 2"));
    const bool is_copy = name == std::string("tensor_untold");
    check_losses(
        got.losses,
        losses_of(is_copy ? "tensor_zero1_bf16" : name, (place.path() / "losses.json").string()),
        within);
  }
}

TEST_CASE("what a run has saved since comes before the checkpoint of DeepSpeed", "[train]") {
  const TemporaryDirectory run;
  const Setting setting{.ranks = 2, .stage = 1};
  const EngineOptions options = golden_options(setting, "zero2_fp32");
  const std::vector<double> expected = losses_of("zero2_fp32");
  const Job whole{.from = fixture("zero2_fp32")};
  Job first = whole;
  first.until = 5;
  check_losses(run_in(run.path(), setting, options, first).losses,
               {expected.begin(), expected.begin() + 2}, kWithin);
  const Continued rest = run_in(run.path(), setting, options, whole);
  CHECK(rest.step == 5);
  CHECK(says(rest, "resumed step=5 from=global_step5"));
  check_losses(rest.losses, {expected.begin() + 2, expected.end()}, kWithin);
  Job anew = whole;
  anew.resume = ResumeMode::kNever;
  CHECK(run_in(run.path(), setting, options, anew).step == kBefore);
}

TEST_CASE("another optimizer, model, batch or frozen weights do not go on from it", "[train]") {
  const Setting setting{.ranks = 2, .stage = 2};
  const auto refusal = [&](const std::string& from, const EngineOptions& options) {
    const TemporaryDirectory run;
    std::string said;
    try {
      run_in(run.path(), setting, options, {.from = from});
    } catch (const Error& error) {
      said = error.what();
    }
    return said;
  };
  const std::string good = fixture("zero2_fp32");
  EngineOptions options = golden_options(setting, "zero2_fp32");
  options.optimizer = {.type = OptimizerType::kLion};
  options.schedule = {};
  CHECK_THAT(refusal(good, options),
             Catch::Contains("saved with the optimizer AdamW, and this run has lion") &&
                 Catch::Contains("dslaunch convert"));
  options = golden_options(setting, "zero2_fp32");
  options.optimizer.adam.amsgrad = true;
  CHECK_THAT(refusal(good, options), Catch::Contains("max_exp_avg_sq"));
  CHECK_THAT(refusal(good, golden_options(setting, "zero2_narrow")),
             Catch::Contains("mlp.c_fc.weight has shape"));
  CHECK_THAT(refusal(fixture("zero2_frozen"), golden_options(setting, "zero2_frozen")),
             Catch::Contains("model.embed_tokens.weight, model.norm.weight were not trained") &&
                 Catch::Contains("dslaunch convert"));
  options = golden_options(setting, "zero2_fp32");
  options.micro_batch *= 2;
  CHECK_THAT(refusal(good, options), Catch::Contains("took 12 samples") && Catch::Contains("24") &&
                                         Catch::Contains("--accept-changes"));
  CHECK_THAT(refusal(fixture("nothing"), options), Catch::Contains("nothing"));
  const TemporaryDirectory run;
  const Continued accepted =
      run_in(run.path(), setting, options, {.from = good, .accept_changes = true, .until = 4});
  CHECK(accepted.step == kBefore);
  CHECK(says(accepted, "took 12 samples"));
  // The run that has just been made is no checkpoint of DeepSpeed.
  CHECK_THAT(refusal(run.path().string(), options),
             Catch::Contains("is of dslaunch itself") && Catch::Contains("--run-dir"));
  CHECK_THAT(refusal((run.path() / "checkpoints" / "global_step4").string(), options),
             Catch::Contains("is of dslaunch itself") && Catch::Contains("--resume"));
}

}  // namespace ds
