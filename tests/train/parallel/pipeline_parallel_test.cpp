// Training with layers on several stages, over whole steps of the engine: the losses and weights of
// one rank by every schedule, beside all other axes, what is moved and kept, and checkpoints of any
// mesh.
#include "model/parallel/pipeline_timing.h"
#include "tests/train/parallel/meshed_run.h"

namespace ds {
namespace {

using namespace testing;

Gpt2Config gpt2(bool tied, double dropout = 0) {
  Gpt2Config model = gpt2_of_four_heads(tied, dropout);
  model.n_layer = 6;
  return model;
}

LlamaConfig llama(bool tied, double dropout = 0) {
  return {.num_hidden_layers = 6,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .hidden_size = 32,
          .intermediate_size = 41,
          .max_position_embeddings = 16,
          .vocab_size = 29,
          .attention_dropout = dropout,
          .tie_word_embeddings = tied};
}

constexpr int64_t kSamples = 16;  // of each step

struct Meshed {
  int ranks;
  int pipe;
  int sequence = 1;
  int tensor = 1;
};

Setting setting_of(const Meshed& mesh, int micro_steps = 1, int stage = 0,
                   const PipelineChoice& pipeline = {}) {
  return {.ranks = mesh.ranks,
          .sequence = mesh.sequence,
          .tensor = mesh.tensor,
          .pipe = mesh.pipe,
          .stage = stage,
          .micro_steps = micro_steps,
          .global_batch = kSamples,
          .pipeline = pipeline};
}

TEST_CASE("stages have the losses of one rank that has all layers", "[train]") {
  for (const ModelConfig& model : {ModelConfig(gpt2(true)), ModelConfig(gpt2(false)),
                                   ModelConfig(llama(true)), ModelConfig(llama(false))}) {
    for (const int micro_steps : {1, 4}) {
      const Outcome alone = run_model(setting_of({1, 1}, micro_steps), model);
      CHECK(alone.losses.back() != alone.losses.front());
      for (const int stages : {2, 4}) {
        CAPTURE(model.index(), micro_steps, stages);
        require_near(run_model(setting_of({stages, stages}, micro_steps), model), alone, 1e-6);
      }
    }
  }
}

TEST_CASE("every schedule trains alike, and those of zero bubble to the bit of 1F1B", "[train]") {
  const ModelConfig model = gpt2(false, 0.1);
  const Outcome alone = run_model(setting_of({1, 1}, 4), model, 3);
  for (const int stages : {2, 4}) {
    const auto by = [&](PipelineKind schedule, int chunks) {
      Setting setting =
          setting_of({stages, stages}, 4, 0, {.schedule = schedule, .chunks = chunks});
      setting.clipping = 0;  // the norm is summed in the order in which layers are shared out
      return run_model(setting, model, 3);
    };
    const Outcome expected = by(PipelineKind::k1F1B, 1);
    for (const auto& [schedule, chunks] :
         {std::pair{PipelineKind::kZeroBubbleH1, 1}, std::pair{PipelineKind::kZeroBubbleV, 2},
          std::pair{PipelineKind::kInterleaved, 2}}) {
      CAPTURE(stages, to_string(schedule));
      const Outcome got = by(schedule, chunks);
      CHECK(got.losses == expected.losses);
      CHECK(got.state == expected.state);
      CHECK(got.validation_loss == expected.validation_loss);
    }
    Setting gpipe = setting_of({stages, stages}, 4, 0, {.schedule = PipelineKind::kGpipe});
    require_near(run_model(gpipe, model, 3), alone, 1e-6);
  }
}

TEST_CASE("tied tables train on both ends by every schedule that has two", "[train]") {
  const ModelConfig model = llama(true, 0.1);
  const Outcome alone = run_model(setting_of({1, 1}, 4), model, 3);
  for (const auto& [schedule, chunks] :
       {std::pair{PipelineKind::kZeroBubbleH1, 1}, std::pair{PipelineKind::kInterleaved, 2},
        std::pair{PipelineKind::kGpipe, 1}}) {
    CAPTURE(to_string(schedule));
    const Setting setting = setting_of({4, 2}, 4, 1, {.schedule = schedule, .chunks = chunks});
    require_near(run_model(setting, model, 3), alone, 1e-6);
  }
}

TEST_CASE("stages go together with other samples, parts of them and parts of layers", "[train]") {
  const ModelConfig model = GENERATE(ModelConfig(gpt2(true, 0.2)), ModelConfig(llama(false, 0.2)));
  const Outcome alone = run_model(setting_of({1, 1}, 2), model, 3);
  for (const int stage : {0, 1}) {
    for (const Meshed mesh : {Meshed{4, 2}, Meshed{4, 2, 1, 2}, Meshed{4, 2, 2}}) {
      CAPTURE(model.index(), stage, mesh.ranks, mesh.pipe, mesh.sequence, mesh.tensor);
      require_near(run_model(setting_of(mesh, 2, stage), model, 3), alone, 1e-5);
    }
  }
  require_near(run_model(setting_of({8, 2, 1, 2}, 2, 1), model, 3), alone, 1e-5);
}

TEST_CASE("stages go together with rings, with heads of keys on several ranks and with tiles",
          "[train]") {
  LlamaConfig model = llama(true);
  model.num_key_value_heads = 1;
  const Outcome alone = run_model(setting_of({1, 1}, 2), model, 3);
  Setting ring = setting_of({4, 2, 2}, 2, 1);
  ring.ring = 2;
  require_near(run_model(ring, model, 3), alone, 1e-5);
  Setting keys = setting_of({4, 2, 1, 2}, 2, 1);
  require_near(run_model(keys, model, 3), alone, 1e-5);
  keys.recomputed = {.mlp_tiles = 3};
  require_near(run_model(keys, model, 3), alone, 1e-5);
}

TEST_CASE("a stage of ZeRO changes no bit of a pipeline", "[train]") {
  const ModelConfig model = gpt2(true, 0.1);
  const Outcome whole = run_model(setting_of({4, 2}, 4, 0), model, 3);
  const Outcome sharded = run_model(setting_of({4, 2}, 4, 1), model, 3);
  CHECK(sharded.losses == whole.losses);
  CHECK(sharded.state == whole.state);
}

TEST_CASE("state of stages beside the device changes no bit, and takes what was planned",
          "[train]") {
  const ModelConfig model = gpt2(true, 0.1);
  for (const Meshed& mesh : {Meshed{2, 2}, Meshed{4, 2}, Meshed{8, 2, 2, 2}}) {
    Setting setting = setting_of(mesh, 4, 1, {.schedule = PipelineKind::kInterleaved, .chunks = 2});
    const Outcome here = run_model(setting, model, 3);
    for (const double ratio : {1.0, 0.3}) {
      CAPTURE(mesh.ranks, ratio);
      setting.state = Tier::kHost;
      setting.offload_ratio = ratio;
      setting.sub_group_numel = 700;
      const Outcome offloaded = run_model(setting, model, 3);
      CHECK(offloaded.losses == here.losses);
      CHECK(offloaded.state == here.state);
      for (const Moved& moved : moved_by(setting, options_with(setting, model))) {
        check_as_planned(moved);
      }
    }
  }
  Setting narrow = setting_of({4, 2}, 4, 1);
  narrow.dtype = DType::kBF16;
  narrow.wire = DType::kF16;
  const Outcome here = run_model(narrow, model, 3);
  narrow.state = Tier::kHost;
  CHECK(run_model(narrow, model, 3).state == here.state);
}

TEST_CASE("activations of stages that wait on the host change no bit, and are there as planned",
          "[train]") {
  const ModelConfig model = gpt2(false, 0.1);
  const int micro_steps = 4;
  for (const auto& [schedule, chunks] :
       {std::pair{PipelineKind::k1F1B, 1}, std::pair{PipelineKind::kZeroBubbleH1, 1},
        std::pair{PipelineKind::kZeroBubbleV, 2}, std::pair{PipelineKind::kGpipe, 1},
        std::pair{PipelineKind::kInterleaved, 2}}) {
    for (const bool again : {false, true}) {
      CAPTURE(to_string(schedule), again);
      Setting setting =
          setting_of({4, 2}, micro_steps, 1, {.schedule = schedule, .chunks = chunks});
      if (again) setting.recomputed = {.recompute = {.part = RecomputedPart::kBlock}};
      const Outcome here = run_model(setting, model, 2);
      const RunPlan whole = dry_run(options_with(setting, model), mesh_of(setting), {});
      setting.offload_activations = true;
      const Outcome offloaded = run_model(setting, model, 2);
      CHECK(offloaded.losses == here.losses);
      CHECK(offloaded.state == here.state);
      for (const Moved& moved : moved_by(setting, options_with(setting, model))) {
        check_as_planned(moved);
      }
      const RunPlan plan = dry_run(options_with(setting, model), mesh_of(setting), {});
      const auto bytes = [](const RunPlan& of, int rank, Tier tier) {
        return nth(of.of_rank(rank).memory, tier).bytes_peak;
      };
      CHECK(bytes(plan, 0, Tier::kHost) > 0);
      CHECK(bytes(plan, 0, Tier::kDevice) < bytes(whole, 0, Tier::kDevice));
      // The first stage has more micro-batches under way than the last.
      if (schedule == PipelineKind::k1F1B) {
        CHECK(bytes(plan, 0, Tier::kHost) > bytes(plan, 2, Tier::kHost));
      }
    }
  }
}

TEST_CASE("a step of stages reads no memory of the device on the host", "[train]") {
  const ModelConfig model = gpt2(true, 0.1);
  Setting setting = setting_of({4, 2, 1, 2}, 2, 1, {.schedule = PipelineKind::kZeroBubbleH1});
  const Outcome open = run_model(setting, model, 2);
  setting.host_access = HostAccess::kBetweenSteps;
  const Outcome closed = run_model(setting, model, 2);
  CHECK(closed.losses == open.losses);
  CHECK(closed.state == open.state);
}

TEST_CASE("stages train in narrow types, and skip a step together", "[train]") {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Setting alone = setting_of({1, 1}, 2);
    alone.dtype = dtype;
    if (dtype == DType::kF16) {
      alone.loss_scale = {.kind = LossScaling::kDynamic,
                          .options = {.init_scale = 0x1p24, .window = 100}};
    }
    Setting cut = alone;
    cut.ranks = 4;
    cut.pipe = 2;
    cut.stage = 1;
    const Outcome got = run_model(cut, llama(true)), expected = run_model(alone, llama(true));
    if (dtype == DType::kF16) {
      CHECK(got.skipped == expected.skipped);
      CHECK(got.scales == expected.scales);
      CHECK(got.skipped.back() > 0);
    }
    for (size_t i = 0; i < got.losses.size(); ++i) {
      CHECK(got.losses[i] == Approx(expected.losses[i]).epsilon(3e-2));
    }
  }
}

TEST_CASE("gradients of stages that travel in fewer bits come near those that do not", "[train]") {
  const Outcome alone = run_model(setting_of({1, 1}, 2), gpt2(true));
  for (const int stage : {0, 1}) {
    Setting cut = setting_of({4, 2}, 2, stage);
    cut.wire = DType::kBF16;
    const Outcome got = run_model(cut, gpt2(true));
    CHECK(got.losses != alone.losses);
    for (size_t i = 0; i < got.losses.size(); ++i) {
      CHECK(got.losses[i] == Approx(alone.losses[i]).epsilon(3e-2));
    }
  }
}

TEST_CASE("blocks that are run again change no bit of a stage", "[train]") {
  Setting setting = setting_of({2, 2}, 4, 0, {.schedule = PipelineKind::kZeroBubbleH1});
  const ModelConfig model = gpt2(true, 0.1);
  const Outcome kept = run_model(setting, model, 2);
  for (const int64_t interval : {1, 2}) {
    setting.recomputed = {.recompute = {.part = RecomputedPart::kBlock}, .per_segment = interval};
    const Outcome again = run_model(setting, model, 2);
    CHECK(again.state == kept.state);
    CHECK(again.losses == kept.losses);
  }
}

TEST_CASE("optimizers of whole parameters and groups of options know all layers", "[train]") {
  const ModelConfig model = gpt2(true);
  for (const OptimizerType type : {OptimizerType::kLamb, OptimizerType::kMuon}) {
    Setting alone = setting_of({1, 1}, 2);
    alone.optimizer.type = type;
    Setting cut = alone;
    cut.ranks = 4;
    cut.pipe = 2;
    cut.stage = 1;
    require_near(run_model(cut, model, 2), run_model(alone, model, 2), 1e-5);
  }
  Setting grouped = setting_of({2, 2});  // of which the first stage has none
  grouped.optimizer.param_groups = {{.match = {"transformer.ln_f.*"}, .lr = 0.0}};
  const Outcome got = run_model(grouped, model, 2);
  for (const float weight : got.state.at("transformer.ln_f.weight/weight")) CHECK(weight == 1.0F);
}

TEST_CASE("a run goes on with other stages, and with none", "[train]") {
  const ModelConfig model = gpt2(true, 0.1);
  const Outcome whole = run_model(setting_of({1, 1}, 2), model, 4);
  const std::vector<Setting> settings{
      setting_of({1, 1}, 2), setting_of({4, 4}, 2),
      setting_of({4, 2}, 2, 1, {.schedule = PipelineKind::kInterleaved, .chunks = 2}),
      setting_of({4, 2, 1, 2}, 2, 0, {.schedule = PipelineKind::kZeroBubbleH1})};
  for (size_t i = 0; i < settings.size(); ++i) {
    const Setting& first = settings[i];
    const Setting& second = settings[(i + 1) % settings.size()];
    CAPTURE(first.ranks, first.pipe, second.ranks, second.pipe);
    require_goes_on(first, second, model, whole);
  }
}

TEST_CASE("boundaries move what a stage gives, as planned, and each rank has its planned memory",
          "[train]") {
  const int64_t layers = 6, width = 32, item = 4, micro_steps = 4;
  for (const Meshed& mesh : {Meshed{2, 2}, Meshed{4, 4}, Meshed{8, 2, 1, 2}, Meshed{4, 2, 2}}) {
    for (const auto& [schedule, chunks] :
         {std::pair{PipelineKind::k1F1B, 1}, std::pair{PipelineKind::kZeroBubbleH1, 1},
          std::pair{PipelineKind::kGpipe, 1}, std::pair{PipelineKind::kInterleaved, 2}}) {
      if (mesh.pipe * chunks > layers + 2) continue;
      CAPTURE(mesh.ranks, mesh.pipe, mesh.sequence, mesh.tensor, to_string(schedule));
      const Setting setting =
          setting_of(mesh, micro_steps, 1, {.schedule = schedule, .chunks = chunks});
      const EngineOptions options = options_with(setting, gpt2(false));
      int64_t sent = 0;
      for (const Moved& moved : moved_by(setting, options)) {
        check_as_planned(moved);
        sent += moved.traffic.at("pipe").at("send").wire_bytes;
      }
      // Between two virtual stages one tensor [N, C] each way of each micro-batch, of which ranks
      // that share layers send a share each.
      const int64_t boundary = options.micro_batch * options.length / mesh.sequence * width * item;
      const int64_t boundaries = mesh.pipe * chunks - 1;
      const int64_t pipelines = mesh.ranks / mesh.pipe / mesh.tensor;
      CHECK(sent == pipelines * micro_steps * boundaries * 2 * boundary);
    }
  }
}

TEST_CASE("a stage holds the activations of as many micro-batches as its schedule says",
          "[train]") {
  const int stages = 4, micro_steps = 8;
  for (const auto& [schedule, chunks] :
       {std::pair{PipelineKind::k1F1B, 1}, std::pair{PipelineKind::kZeroBubbleH1, 1},
        std::pair{PipelineKind::kGpipe, 1}, std::pair{PipelineKind::kZeroBubbleV, 2}}) {
    const PipelineShape shape{.micro_batches = micro_steps, .stages = stages, .chunks = chunks};
    std::vector<PipelineSchedule> all;
    for (int s = 0; s < stages; ++s) all.push_back(pipeline_schedule(schedule, shape, s));
    const PipelineTime time = time_pipeline(all, {});
    const Setting setting =
        setting_of({4, 4}, micro_steps, 0, {.schedule = schedule, .chunks = chunks});
    const RunPlan plan = dry_run(options_with(setting, gpt2(false)), mesh_of(setting), {});
    for (int s = 0; s < stages; ++s) {
      CAPTURE(to_string(schedule), s);
      CHECK(std::ssize(plan.of_rank(s).step.train.begin()->second.room_bytes) ==
            nth(time.stages, s).activations_peak);
    }
  }
}

TEST_CASE("what travels between stages is whole where that is asked for", "[train]") {
  Setting setting = setting_of({4, 2, 1, 2}, 2);
  const Outcome shared = run_model(setting, gpt2(true), 2);
  const int64_t bytes = moved_by(setting, options_with(setting, gpt2(true)))
                            .front()
                            .traffic.at("pipe")
                            .at("send")
                            .wire_bytes;
  setting.pipeline = {.shares_activations = false, .shares_gradients = false};
  const Outcome whole = run_model(setting, gpt2(true), 2);
  CHECK(whole.losses == shared.losses);
  CHECK(whole.state == shared.state);
  CHECK(moved_by(setting, options_with(setting, gpt2(true)))
            .front()
            .traffic.at("pipe")
            .at("send")
            .wire_bytes == 2 * bytes);
}

TEST_CASE("stages leave a rank its part of weights and state", "[train]") {
  EngineOptions options = options_of({.micro_steps = 4});
  options.model = gpt2(false);
  const RunPlan alone = dry_run(options, {}, {});
  const RunPlan cut = dry_run(options, {.pipe = 2}, {});
  CHECK(cut.classes.size() == 2);
  CHECK(cut.parameters() == alone.parameters());
  options.model = gpt2(true);
  CHECK(dry_run(options, {.pipe = 2}, {}).parameters() == dry_run(options, {}, {}).parameters());
  const auto state_of = [](const RankPlan& plan) {
    return static_cast<double>(
        nth(nth(plan.memory, Tier::kDevice).tag_bytes_at_peak, MemoryTag::kOptimizer));
  };
  CHECK(state_of(cut.of_rank(0)) + state_of(cut.of_rank(1)) ==
        Approx(state_of(alone.of_rank(0))).epsilon(0.02));
  CHECK(state_of(cut.of_rank(1)) < 0.7 * state_of(alone.of_rank(0)));
}

}  // namespace
}  // namespace ds
