// Training of which a part is frozen: the same bits wherever ZeRO keeps weights and state, frozen
// weights as they were, no byte of gradients, state or traffic for them, and resumes.
#include "optim/loss_scaler.h"
#include "tests/train/offload/offload_settings.h"
#include "tests/train/parallel/meshed_run.h"

namespace ds {
namespace {

using namespace testing;

std::set<std::string> frozen_of(const std::function<bool(const std::string&)>& is_frozen) {
  std::set<std::string> names;
  for (const ParamSpec& spec : specs_of_model(small_gpt2(0), DType::kF32)) {
    if (is_frozen(spec.name)) names.insert(spec.name);
  }
  return names;
}

bool is_of_last_layer(const std::string& name) { return name.find(".h.1.") != std::string::npos; }

// A matrix, a bias and a norm's weight of the first layer, and the tied table with its positions.
bool is_of_a_mixture(const std::string& name) {
  return name.ends_with("h.0.mlp.c_fc.weight") || name.ends_with("h.0.attn.c_attn.bias") ||
         name.ends_with("h.0.ln_1.weight") || name.find(".wte.") != std::string::npos ||
         name.find(".wpe.") != std::string::npos;
}

std::vector<std::set<std::string>> choices() {
  return {frozen_of([](const std::string& name) { return !is_of_last_layer(name); }),
          frozen_of(is_of_a_mixture),
          frozen_of([](const std::string& name) { return !name.ends_with("bias"); })};
}

// Returns the outcome, once its frozen weights and its state have been looked at.
Outcome run(const Setting& setting, const EngineOptions& options, int64_t until) {
  MemoryFileSystem first_disk, disk;
  const Outcome first = train(setting, options, first_disk, 0);
  Outcome got = train(setting, options, disk, until);
  for (const auto& [name, values] : got.state) {
    const std::string of = name.substr(0, name.rfind('/'));
    if (!options.zero.layout.frozen.contains(of)) continue;
    CAPTURE(name);
    CHECK(name.ends_with("/weight"));
    CHECK(values == first.state.at(name));
  }
  bool trains = false;
  for (const auto& [name, values] : first.state) trains = trains || values != got.state.at(name);
  CHECK(trains);
  return got;
}

Outcome run(const Setting& setting, int64_t until = 3) {
  return run(setting, options_of(setting), until);
}

TEST_CASE("a model of which a part trains has the same bits at every stage and on every tier",
          "[train]") {
  for (const std::set<std::string>& frozen : choices()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Setting plain{.ranks = 2, .dtype = dtype, .micro_steps = 2, .frozen = frozen};
      const Outcome expected = run(plain);
      std::vector<Setting> settings;
      for (int stage = 1; stage <= 3; ++stage) {
        Setting setting = plain;
        setting.stage = stage;
        settings.push_back(setting);
        for (const Setting& offloaded : offloads_of(setting)) settings.push_back(offloaded);
      }
      Setting weights = settings.back();
      weights.state = Tier::kDevice;
      weights.offload_ratio = 1;
      for (const Tier tier : {Tier::kHost, Tier::kNvme}) {
        weights.params = tier;
        weights.host_numel = 800;
        settings.push_back(weights);
      }
      weights.params = Tier::kDevice;
      for (const Setting& both : offloads_of_both(weights)) settings.push_back(both);
      for (const Setting& setting : settings) {
        CAPTURE(words_of(setting), frozen.size());
        const Outcome got = run(setting);
        CHECK(got.state == expected.state);
        CHECK(got.losses == expected.losses);
        CHECK(got.validation_loss == expected.validation_loss);
        check_plan(setting, got);
      }
    }
  }
}

TEST_CASE("who is alone freezes as well, and updates ahead or late", "[train]") {
  const std::set<std::string> frozen = choices().back();
  Setting alone{.stage = 3, .dtype = DType::kBF16, .micro_steps = 2, .frozen = frozen};
  const Outcome expected = run(alone);
  alone.params = Tier::kHost;
  CHECK(run(alone).state == expected.state);
  alone.params = Tier::kNvme;
  alone.host_numel = 800;
  CHECK(run(alone).state == expected.state);
  Setting ahead{.ranks = 2, .stage = 2, .state = Tier::kHost, .update_ahead = true};
  ahead.frozen = frozen;
  Setting in_turn = ahead;
  in_turn.update_ahead = false;
  const Outcome got = run(ahead);
  CHECK(got.state == run(in_turn).state);
  Setting zenflow = in_turn;
  for (const bool overlaps : {false, true}) {
    zenflow.zenflow = ZenflowOptions{.topk_ratio = 0.2, .update_every = 2, .overlaps = overlaps};
    check_plan(zenflow, run(zenflow, 5));
  }
  zenflow.zenflow = ZenflowOptions{.topk_ratio = 1, .select_every = 2};
  const Outcome all_important = run(zenflow);
  CHECK(all_important.losses == got.losses);
}

TEST_CASE("weights that are their own masters, and those of fp16, freeze as well", "[train]") {
  for (const std::set<std::string>& frozen : choices()) {
    for (int stage = 0; stage <= 3; ++stage) {
      CAPTURE(stage);
      Setting setting{.ranks = 2, .stage = stage, .dtype = DType::kBF16, .frozen = frozen};
      setting.masters = Masters::kWeights;
      check_plan(setting, run(setting));
      setting.dtype = DType::kF16;
      setting.masters = Masters::kFp32;
      setting.loss_scale = {.kind = LossScaling::kDynamic, .options = {.init_scale = 1024}};
      check_plan(setting, run(setting));
    }
  }
}

TEST_CASE("parts are frozen under every optimizer", "[train]") {
  for (const std::set<std::string>& frozen : choices()) {
    for (const OptimizerType type :
         {OptimizerType::kLamb, OptimizerType::kMuon, OptimizerType::kSgd, OptimizerType::kLion}) {
      OptimizerConfig optimizer{.type = type};
      Setting setting{.ranks = 2, .frozen = frozen};
      setting.optimizer = optimizer;
      const Outcome expected = run(setting);
      for (int stage = 1; stage <= 3; ++stage) {
        CAPTURE(static_cast<int>(type), stage);
        setting.stage = stage;
        CHECK(run(setting).state == expected.state);
      }
    }
    for (const OptimizerType type :
         {OptimizerType::kOneBitAdam, OptimizerType::kOneBitLamb, OptimizerType::kZeroOneAdam}) {
      CAPTURE(static_cast<int>(type));
      OptimizerConfig optimizer{.type = type};
      optimizer.onebit_adam.freeze_step = optimizer.onebit_lamb.freeze_step = 2;
      Setting setting{.ranks = 2, .frozen = frozen};
      setting.optimizer = optimizer;
      const Outcome got = run(setting, 4);
      // ZeroOneAdam has more kinds of updates than a short run makes.
      if (type != OptimizerType::kZeroOneAdam) check_plan(setting, got);
    }
  }
}

TEST_CASE("parts are frozen however ranks share layers, stages and samples", "[train]") {
  for (const std::set<std::string>& frozen : choices()) {
    const Outcome alone = run({.micro_steps = 2, .frozen = frozen});
    for (Setting setting : {Setting{.ranks = 2, .tensor = 2, .micro_steps = 2},
                            Setting{.ranks = 4, .tensor = 2, .stage = 3, .micro_steps = 2},
                            Setting{.ranks = 2, .tensor = 2, .micro_steps = 2, .shares_rows = true},
                            Setting{.ranks = 2, .pipe = 2, .micro_steps = 2},
                            Setting{.ranks = 4, .pipe = 2, .stage = 1, .micro_steps = 2},
                            Setting{.ranks = 4, .tensor = 2, .pipe = 2, .micro_steps = 2},
                            Setting{.ranks = 2, .sequence = 2, .stage = 3, .micro_steps = 2},
                            Setting{.ranks = 2, .sequence = 2, .micro_steps = 2, .ring = 2}}) {
      setting.frozen = frozen;
      CAPTURE(words_of(setting), setting.tensor, setting.pipe, setting.sequence);
      const Outcome got = run(setting);
      require_losses_near(got, alone, 1e-5);
      CHECK(got.state.size() == alone.state.size());
      for (const Moved& moved : moved_by(setting, options_of(setting))) check_as_planned(moved);
    }
    for (const PipelineKind kind : {PipelineKind::kZeroBubbleH1, PipelineKind::kInterleaved}) {
      Setting setting{.ranks = 2, .pipe = 2, .micro_steps = 2, .frozen = frozen};
      setting.pipeline.schedule = kind;
      setting.pipeline.chunks = kind == PipelineKind::kInterleaved ? 2 : 1;
      require_losses_near(run(setting), alone, 1e-5);
    }
  }
}

TEST_CASE("parts are frozen where tables are exchanged by rows", "[train]") {
  for (const bool freezes_table : {false, true}) {
    const std::set<std::string> frozen = frozen_of([&](const std::string& name) {
      return name.find(".wte.") != std::string::npos ? freezes_table : !is_of_last_layer(name);
    });
    const Setting setting{.ranks = 2, .frozen = frozen};
    EngineOptions options = options_of(setting);
    Gpt2Config model = small_gpt2(0);
    model.tie_word_embeddings = false;
    model.vocab_size = 700;
    options.model = model;
    const Outcome whole = run(setting, options, 3);
    options.zero.wire.sparse_tokens = 96;
    CHECK(run(setting, options, 3).state == whole.state);
  }
}

TEST_CASE("parts are frozen where activations are made again, or wait on the host", "[train]") {
  for (const std::set<std::string>& frozen : choices()) {
    const Setting plain{.ranks = 2, .stage = 2, .frozen = frozen};
    const Outcome expected = run(plain);
    for (const RecomputedPart part :
         {RecomputedPart::kBlock, RecomputedPart::kAttention, RecomputedPart::kMlp}) {
      Setting setting = plain;
      setting.recomputed.recompute.part = part;
      const Outcome got = run(setting);
      CHECK(got.state == expected.state);
      check_plan(setting, got);
    }
    Setting setting = plain;
    setting.offload_activations = true;
    CHECK(run(setting).state == expected.state);
    check_plan(setting, run(setting));
  }
}

// What lies in the buckets of a rank, padding included.
struct Laid {
  int64_t training = 0, training_slices = 0, frozen = 0;  // elements
};

Laid laid_of(const Setting& setting) {
  Laid laid;
  test::run_ranks(setting.ranks, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, mesh_of(setting));
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options_of(setting), workspace.resources(), std::nullopt);
    if (comm.rank() > 0) return;
    for (const auto& group : engine.store().groups()) {
      const BucketLayout& layout = group->layout();
      for (int b = 0; b < std::ssize(layout.buckets()); ++b) {
        if (!group->trains()) {
          laid.frozen += nth(layout.buckets(), b).numel;
          continue;
        }
        laid.training += nth(layout.buckets(), b).numel;
        laid.training_slices += layout.slice_numel(b);
      }
      test::require(
          group->shards().empty() || !group->shards().front().grad.defined() || group->trains(),
          "a group that does not train has gradients");
    }
  });
  return laid;
}

// Bytes of a tag at the peak of the first rank.
int64_t bytes_of(const Setting& setting, MemoryTag tag) {
  const RunPlan plan = dry_run(options_of(setting), mesh_of(setting), {});
  const MemoryUsage& device = nth(plan.of_rank(0).memory, Tier::kDevice);
  return static_cast<int64_t>(device.tag_bytes_at_peak.at(static_cast<size_t>(tag)));
}

TEST_CASE("gradients and state are those of what trains", "[train]") {
  for (const std::set<std::string>& frozen : choices()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (int stage = 0; stage <= 3; ++stage) {
        CAPTURE(stage, frozen.size(), name_of(dtype));
        const Setting setting{.ranks = 2, .stage = stage, .dtype = dtype, .frozen = frozen};
        const Laid laid = laid_of(setting);
        CHECK(laid.frozen > 0);
        const auto width = static_cast<int64_t>(size_of(dtype));
        // Two moments and, of 16 bits, a master; beside them the scalars of the step.
        const int64_t of_state = dtype == DType::kF32 ? 8 : 12;
        const int64_t own = stage == 0 ? laid.training : laid.training_slices;
        const Setting all{.ranks = 2, .stage = stage, .dtype = dtype};
        const Laid of_all = laid_of(all);
        const int64_t own_of_all = stage == 0 ? of_all.training : of_all.training_slices;
        CHECK(of_all.frozen == 0);
        CHECK(bytes_of(setting, MemoryTag::kOptimizer) - own * of_state ==
              bytes_of(all, MemoryTag::kOptimizer) - own_of_all * of_state);
        CHECK(bytes_of(setting, MemoryTag::kGradients) ==
              (stage < 2 ? laid.training : laid.training_slices) * width);
        if (stage == 3) continue;  // which keeps the whole of small parameters alone
        CHECK(bytes_of(setting, MemoryTag::kParameters) == (laid.training + laid.frozen) * width);
      }
    }
  }
}

TEST_CASE("what is reduced, and published, is what trains", "[train]") {
  for (const std::set<std::string>& frozen : choices()) {
    for (int stage = 0; stage <= 3; ++stage) {
      CAPTURE(stage, frozen.size());
      const Setting setting{.ranks = 2, .stage = stage, .frozen = frozen};
      const Laid laid = laid_of(setting);
      const Moved moved = moved_by(setting, options_of(setting)).front();
      check_as_planned(moved);
      const Setting all{.ranks = 2, .stage = stage};
      const Laid of_all = laid_of(all);
      const Moved moved_of_all = moved_by(all, options_of(all)).front();
      // Each of two ranks sends the other's half, and its own again, beside the sums of the step.
      const auto &data = moved.traffic.at("data"), &data_of_all = moved_of_all.traffic.at("data");
      CHECK(data.at("reduce_scatter").wire_bytes == laid.training_slices * 4);
      if (stage == 3) continue;
      CHECK(data.at("all_gather").wire_bytes - laid.training_slices * 4 ==
            data_of_all.at("all_gather").wire_bytes - of_all.training_slices * 4);
    }
  }
}

TEST_CASE("a run of which a part trains goes on anywhere", "[train]") {
  for (const std::set<std::string>& frozen : choices()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Setting first{.ranks = 2, .stage = 3, .dtype = dtype, .params = Tier::kHost};
      first.frozen = frozen;
      MemoryFileSystem whole_disk, disk;
      const Outcome whole = train(first, whole_disk, 4);
      train(first, disk, 2);
      const Outcome resumed = train(first, disk, 4);
      CHECK(resumed.state == whole.state);
      CHECK(resumed.losses.back() == whole.losses.back());
      for (const Setting& other :
           {Setting{.ranks = 1, .dtype = dtype, .frozen = frozen},
            Setting{.ranks = 3, .stage = 2, .dtype = dtype, .frozen = frozen},
            Setting{.ranks = 2, .tensor = 2, .dtype = dtype, .frozen = frozen},
            Setting{.ranks = 2, .pipe = 2, .dtype = dtype, .micro_steps = 2, .frozen = frozen}}) {
        CAPTURE(other.ranks, other.tensor, other.pipe);
        CHECK(train(other, disk, 4).state == whole.state);
      }
    }
  }
}

TEST_CASE("another choice of what trains does not go on from a checkpoint, and says how to",
          "[train]") {
  const std::set<std::string> some = choices().front(), others = choices().back();
  MemoryFileSystem disk;
  Setting setting{.stage = 1, .frozen = some};
  train(setting, disk, 1);
  setting.frozen = others;
  CHECK_THROWS_WITH(
      train(setting, disk, 2),
      Catch::Contains("global_step1 was saved with other parameters frozen: ") &&
          Catch::Contains("transformer.h.0.ln_1.bias trains now, and was frozen") &&
          Catch::Contains(
              "more; put train.freeze, train.train_only and lora back, or start from the "
              "weights alone: a new run directory and the exported folder"));
  setting.frozen = some;
  setting.frozen.insert("transformer.h.1.ln_1.bias");
  CHECK_THROWS_WITH(
      train(setting, disk, 2),
      Catch::Contains("frozen: transformer.h.1.ln_1.bias is frozen now, and trained; put"));
  setting.frozen = some;
  CHECK(train(setting, disk, 2).losses.size() == 1);
}

// Neighbours, codes on the wire, and MiCS.
TEST_CASE("parts are frozen where ranks are near each other, or send codes", "[train]") {
  for (const std::set<std::string>& frozen : choices()) {
    Setting setting{.ranks = 4, .stage = 3, .dtype = DType::kBF16, .frozen = frozen};
    const Outcome plain = run(setting);
    setting.near = 2;
    for (const ZeroPlusPlus& plus :
         {ZeroPlusPlus{.secondary_weights = true}, ZeroPlusPlus{.quantized_weights = true},
          ZeroPlusPlus{.quantized_gradients = true},
          ZeroPlusPlus{.quantized_weights = true,
          .quantized_gradients = true,
          .secondary_weights = true,
          .feedback = {.on = true}}}) {
      EngineOptions options = options_of(setting);
      options.zero.placement.policy.plus_plus = plus;
      const Outcome got = run(setting, options, 3);
      if (!plus.sends_codes()) CHECK(got.state == plain.state);
      for (const auto& [name, values] : plain.state) {
        if (frozen.contains(name.substr(0, name.rfind('/')))) CHECK(got.state.at(name) == values);
      }
    }
    for (int stage = 1; stage <= 3; ++stage) {
      setting.stage = stage;
      EngineOptions options = options_of(setting);
      options.zero.placement.policy.shard_over = Axis::kShard;
      require_losses_near(run(setting, options, 3), plain, 1e-3);
    }
  }
}

}  // namespace
}  // namespace ds
