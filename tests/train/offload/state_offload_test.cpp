// Training with optimizer state beside the device: the bits of training without, whatever the
// stage, the place, the share that is there and the parts it is cut into; checkpoints that know
// nothing of it; and as much memory of each tier as the plan says.
#include "optim/loss_scaler.h"
#include "tests/train/offload/offload_settings.h"

namespace ds {
namespace {

using namespace testing;

void check_like_on_device(const Setting& plain) {
  MemoryFileSystem plain_disk;
  const Outcome expected = train(plain, plain_disk, 3);
  for (const Setting& setting : offloads_of(plain)) {
    INFO(words_of(setting));
    MemoryFileSystem disk;
    const Outcome got = train(setting, disk, 3);
    CHECK(got.losses == expected.losses);
    CHECK(got.state == expected.state);
  }
}

TEST_CASE("offloaded state trains to the same bits, at every stage and number of ranks",
          "[train]") {
  const int ranks = GENERATE(1, 2, 4);
  const int stage = GENERATE(1, 2, 3);
  for (const int micro_steps : {1, 3}) {
    check_like_on_device({.ranks = ranks, .stage = stage, .micro_steps = micro_steps});
  }
}

TEST_CASE("offloaded state of bf16 weights, without clipping, with results that come late",
          "[train]") {
  const int stage = GENERATE(1, 2, 3);
  for (const int micro_steps : {1, 2}) {
    const Setting bf16{
        .ranks = 2, .stage = stage, .dtype = DType::kBF16, .micro_steps = micro_steps};
    check_like_on_device(bf16);
    Setting late = bf16;
    late.results_late = 1;
    late.clipping = 0;
    check_like_on_device(late);
  }
}

TEST_CASE("every optimizer updates offloaded state as it updates its own", "[train]") {
  for (const OptimizerConfig& optimizer :
       {OptimizerConfig{.type = OptimizerType::kLion, .lion = {.lr = 0.001}},
        OptimizerConfig{.type = OptimizerType::kAdagrad, .adagrad = {.lr = 0.01}},
        OptimizerConfig{.type = OptimizerType::kSgd, .sgd = {.lr = 0.1}}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      check_like_on_device({.ranks = 2, .stage = 3, .dtype = dtype, .optimizer = optimizer});
    }
  }
}

TEST_CASE("offloaded state in fewer bits, and of groups with options of their own", "[train]") {
  for (const MomentType type : {MomentType::kBf16, MomentType::kMxFp8}) {
    OptimizerConfig optimizer{
        .type = OptimizerType::kAdamW, .adam = {.lr = 0.001}, .moment_dtype = type};
    optimizer.param_groups = {{.match = {"*bias"}, .lr = 0.003, .weight_decay = 0.0}};
    for (const int ranks : {1, 2}) {
      check_like_on_device({.ranks = ranks, .stage = 3, .optimizer = optimizer});
    }
  }
  const OptimizerConfig begins_elsewhere{.type = OptimizerType::kAdagrad,
                                         .adagrad = {.lr = 0.01, .initial_accumulator_value = 0.5},
                                         .moment_dtype = MomentType::kMxFp8};
  check_like_on_device({.ranks = 2, .stage = 3, .optimizer = begins_elsewhere});
}

TEST_CASE("offloaded state of gradients that travel in other bits, and of fp16", "[train]") {
  for (const int micro_steps : {1, 2}) {
    check_like_on_device({.ranks = 2,
                          .stage = 3,
                          .micro_steps = micro_steps,
                          .wire = DType::kBF16,
                          .wire_modules = {ModuleKind::kLinear}});
    check_like_on_device({.ranks = 2,
                          .stage = 2,
                          .dtype = DType::kBF16,
                          .micro_steps = micro_steps,
                          .wire = DType::kF32});
    Setting fp16{.ranks = 2, .stage = 3, .dtype = DType::kF16, .micro_steps = micro_steps};
    fp16.loss_scale = loss_scale_rule({.loss_scale = 128});
    check_like_on_device(fp16);
    fp16.loss_scale =
        loss_scale_rule({.initial_scale_power = 40});  // overflows: nothing is updated
    check_like_on_device(fp16);
  }
}

// LAMB needs norms of whole parameters, and Muon products of matrices.
TEST_CASE("optimizers that see whole parameters update offloaded state as they update their own",
          "[train]") {
  const OptimizerConfig lamb{.type = OptimizerType::kLamb, .lamb = {.lr = 0.01}};
  const OptimizerConfig muon{.type = OptimizerType::kMuon, .muon = {.lr = 0.01}};
  for (const OptimizerConfig& optimizer : {lamb, muon}) {
    for (const auto& [ranks, stage] : {std::pair{1, 3}, {2, 1}, {2, 3}, {4, 2}}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        const Setting plain{.ranks = ranks, .stage = stage, .dtype = dtype, .optimizer = optimizer};
        MemoryFileSystem plain_disk;
        const Outcome expected = train(plain, plain_disk, 3);
        std::vector<Setting> ways = offloads_of(plain);
        if (stage == 3) std::ranges::copy(offloads_of_both(plain), std::back_inserter(ways));
        for (const Setting& setting : ways) {
          if (setting.offload_ratio < 1) continue;
          INFO((optimizer.type == OptimizerType::kLamb ? "Lamb, " : "Muon, ") << words_of(setting));
          MemoryFileSystem disk;
          const Outcome got = train(setting, disk, 3);
          CHECK(got.losses == expected.losses);
          CHECK(got.state == expected.state);
          check_plan(setting, got);
        }
      }
    }
  }
}

TEST_CASE("a share of the state of an optimizer that sees whole parameters is no setting",
          "[train]") {
  for (const OptimizerType type : {OptimizerType::kLamb, OptimizerType::kMuon}) {
    Setting setting{.ranks = 2, .stage = 3, .optimizer = {.type = type}};
    setting.state = Tier::kHost;
    setting.offload_ratio = 0.5;
    CHECK_THROWS_WITH(dry_run(options_of(setting), {.data = 2}, {}),
                      Catch::Contains("sees whole parameters"));
  }
}

TEST_CASE("memory that the host may not touch during a step is no need of offloaded state",
          "[train]") {
  check_like_on_device(
      {.ranks = 2, .stage = 3, .micro_steps = 2, .host_access = HostAccess::kBetweenSteps});
}

TEST_CASE("a run goes on from a checkpoint at any other way of offloading", "[train]") {
  const Setting plain{.ranks = 2, .stage = 3, .dtype = DType::kBF16};
  MemoryFileSystem whole_disk;
  const Outcome whole = train(plain, whole_disk, 4);
  std::vector<Setting> ways = offloads_of(plain);
  ways.push_back(plain);
  ways.push_back({.ranks = 2, .stage = 1, .dtype = DType::kBF16, .state = Tier::kHost});
  for (size_t i = 0; i < ways.size(); ++i) {
    const Setting& first = ways[i];
    const Setting& second = ways[(i + 1) % ways.size()];
    INFO(words_of(first) << "; then " << words_of(second));
    MemoryFileSystem disk;
    train(first, disk, 2);
    CHECK(train(second, disk, 4).state == whole.state);
  }
  for (const int ranks : {1, 3}) {  // and at another number of ranks
    MemoryFileSystem disk;
    const Outcome saved = train(ways[3], disk, 2);
    Setting other = ways[4];
    other.ranks = ranks;
    CHECK(train(other, disk, 2).state == saved.state);
  }
}

TEST_CASE("the plan of offloaded state is what it takes of every tier", "[train]") {
  for (const int ranks : {1, 2}) {
    for (const int micro_steps : {1, 2}) {
      for (const Setting& setting : offloads_of(
               {.ranks = ranks, .stage = 3, .dtype = DType::kBF16, .micro_steps = micro_steps})) {
        INFO(words_of(setting));
        MemoryFileSystem disk;
        check_plan(setting, train(setting, disk, 2));
      }
    }
  }
}

TEST_CASE("state of many times the host's limit trains through a swap file", "[train]") {
  Setting setting{
      .ranks = 1, .stage = 3, .dtype = DType::kBF16, .state = Tier::kNvme, .sub_group_numel = 256};
  const RunPlan plan = dry_run(options_of(setting), {.data = 1}, {});
  const size_t host = nth(plan.of_rank(0).memory, Tier::kHost).bytes_peak;
  const size_t nvme = nth(plan.of_rank(0).memory, Tier::kNvme).bytes_peak;
  CHECK(nvme >= 8 * host);
  MemoryFileSystem disk;
  CHECK(nth(train(setting, disk, 2).tiers, Tier::kHost).bytes_peak == host);
}

TEST_CASE("the smallest tiles are as large as what a rank has of its largest parameter",
          "[train]") {
  Setting setting{.ranks = 2, .stage = 3, .dtype = DType::kBF16, .state = Tier::kNvme};
  const auto host_bytes = [&](int64_t tile) {
    setting.sub_group_numel = tile;
    EngineOptions options = options_of(setting);
    options.zero.layout.bucket_numel = 20'000;  // several of the largest
    return nth(dry_run(options, {.data = 2}, {}).of_rank(0).memory, Tier::kHost).bytes_peak;
  };
  const size_t smallest = host_bytes(0);
  CHECK(smallest > host_bytes(32));
  CHECK(smallest < host_bytes(INT64_MAX));
  setting.sub_group_numel = 0;
  MemoryFileSystem disk, plain_disk;
  const Outcome got = train(setting, disk, 2);
  check_plan(setting, got);
  setting.state = Tier::kDevice;
  CHECK(got.losses == train(setting, plain_disk, 2).losses);
}

}  // namespace
}  // namespace ds
