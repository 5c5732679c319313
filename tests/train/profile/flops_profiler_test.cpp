// The flops profiler over forward passes on the meta device, against closed forms.
#include "train/profile/flops_profiler.h"

#include "comm/peers.h"
#include "core/files/file.h"
#include "core/values/index.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/train/heard_reports.h"
#include "train/batches/no_data.h"
#include "train/workspace.h"

namespace ds {
namespace {

// Keeps the operations of the first forward pass.
class ForwardOps final : public StepObserver {
 public:
  explicit ForwardOps(OpLog& log) : log_(log) {}
  void before_instruction(int64_t, const PipelineInstruction& instruction) override {
    if (instruction.op == PipelineOp::kForwardPass) log_.add(forward_);
  }
  void after_instruction(int64_t, const PipelineInstruction& instruction) override {
    if (instruction.op != PipelineOp::kForwardPass) return;
    log_.remove(forward_);
    for (const LoggedOp& op : std::exchange(forward_, {})) {
      ops.push_back({.label = op.label, .name = op.name, .flops = op.cost.flops, .seconds = 1});
    }
  }
  std::vector<ProfiledOp> ops;

 private:
  OpLog& log_;
  std::vector<LoggedOp> forward_;
};

ModuleProfile profile_of(const ModelConfig& model, int64_t length) {
  Connections nobody = Connections::meta(0, {.data = 1});
  OpLog log;
  Workspace workspace({.device = Device::meta(), .trace = &log}, nobody.peers());
  log.follow(workspace.stream());
  EngineOptions options;
  options.model = model;
  options.zero.placement.policy = zero_policy(0);
  options.micro_batch = 2;
  options.length = length;
  Engine engine(options, workspace.resources(), std::nullopt);
  NoData nothing;
  ForwardOps forward(log);
  engine.begin_step(nothing, 0, &forward);
  std::vector<ProfiledParameter> parameters;
  for (ParamId id = 0; id < engine.store().count(); ++id) {
    const ParamSpec& spec = engine.store().spec(id);
    parameters.push_back({spec.name, spec.logical_shape().numel()});
  }
  return module_profile({.config = model, .length = length, .is_trained = true}, parameters,
                        forward.ops);
}

const ModuleProfile& inside(const ModuleProfile& module, const std::string& path) {
  const size_t dot = path.find('.');
  const auto found = std::ranges::find(module.modules, path.substr(0, dot), &ModuleProfile::name);
  REQUIRE(found != module.modules.end());
  return dot == std::string::npos ? *found : inside(*found, path.substr(dot + 1));
}

Gpt2Config gpt2_124m() {
  Gpt2Config model;
  model.resid_pdrop = model.embd_pdrop = model.attn_pdrop = 0;
  return model;
}

LlamaConfig small_llama() {
  LlamaConfig model;
  model.hidden_size = 512;
  model.intermediate_size = 1376;
  model.num_hidden_layers = 4;
  model.num_attention_heads = 8;
  model.num_key_value_heads = 2;
  model.vocab_size = 32000;
  return model;
}

constexpr double kWithin = 1e-3;

}  // namespace

TEST_CASE("flops of GPT-2 are those of the closed form", "[train]") {
  constexpr double kTokens = 2 * 1024, kLength = 1024, kWidth = 768, kLayers = 12, kWords = 50257;
  const ModuleProfile model = profile_of(gpt2_124m(), 1024);
  const double products = kTokens * (kLayers * 12 * kWidth * kWidth + kWords * kWidth);
  const double scores = kTokens * kLayers * 2 * kLength * kWidth;
  CHECK(model.macs == Approx(products + scores).epsilon(kWithin));
  const double norms = kTokens * kWidth * 5 * (2 * kLayers + 1);
  CHECK(model.flops == Approx(2 * (products + scores) + norms).epsilon(kWithin));
  CHECK(model.parameters == 124439808);
  CHECK(model.kind == "GPT2LMHeadModel");
  const ModuleProfile& block = inside(model, "transformer.h.7");
  CHECK(block.kind == "GPT2Block");
  CHECK(inside(block, "attn.c_attn").macs ==
        Approx(kTokens * 3 * kWidth * kWidth).epsilon(kWithin));
  CHECK(inside(block, "mlp.c_proj").macs == Approx(kTokens * 4 * kWidth * kWidth).epsilon(kWithin));
  CHECK(inside(block, "attn").macs ==
        Approx(kTokens * (4 * kWidth * kWidth + 2 * kLength * kWidth)).epsilon(kWithin));
  CHECK(inside(model, "lm_head").macs == Approx(kTokens * kWords * kWidth).epsilon(kWithin));
  CHECK(inside(block, "ln_2").flops == Approx(kTokens * kWidth * 5));
}

TEST_CASE("flops of Llama are those of the closed form, also where products are joined",
          "[train]") {
  const LlamaConfig config = small_llama();
  const ModuleProfile model = profile_of(config, 256);
  constexpr double kTokens = 2 * 256, kLength = 256, kWidth = 512, kLayers = 4, kWords = 32000;
  constexpr double kInner = 1376, kKeys = 128;
  const double block_products =
      kWidth * kWidth + 2 * kWidth * kKeys + kWidth * kWidth + 3 * kWidth * kInner;
  const double macs =
      kTokens * (kLayers * (block_products + 2 * kLength * kWidth) + kWords * kWidth);
  CHECK(model.macs == Approx(macs).epsilon(kWithin));
  const ModuleProfile& block = inside(model, "model.layers.2");
  CHECK(inside(block, "self_attn.q_proj").macs == Approx(kTokens * kWidth * kWidth));
  CHECK(inside(block, "self_attn.k_proj").macs == Approx(kTokens * kWidth * kKeys));
  CHECK(inside(block, "self_attn.v_proj").macs == Approx(kTokens * kWidth * kKeys));
  CHECK(inside(block, "self_attn.o_proj").macs == Approx(kTokens * kWidth * kWidth));
  CHECK(inside(block, "mlp.up_proj").macs == Approx(kTokens * kWidth * kInner));
  CHECK(inside(block, "mlp").kind == "LlamaMLP");
}

TEST_CASE("flops of experts are those of the experts that each token goes through", "[train]") {
  Qwen2MoeConfig config;
  config.num_hidden_layers = 2;
  config.num_attention_heads = config.num_key_value_heads.emplace(4);
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.vocab_size = 100;
  config.num_experts = 8;
  config.num_experts_per_tok = 3;
  config.moe_intermediate_size = 40;
  config.shared_expert_intermediate_size = 24;
  config.mlp_only_layers = {0};
  const ModuleProfile model = profile_of(config, 64);
  constexpr double kTokens = 2 * 64, kWidth = 64;
  const ModuleProfile& dense = inside(model, "model.layers.0.mlp");
  CHECK(dense.macs == Approx(kTokens * 3 * kWidth * 96));
  const ModuleProfile& experts = inside(model, "model.layers.1.mlp");
  CHECK(experts.kind == "Qwen2MoeSparseMoeBlock");
  CHECK(inside(experts, "experts").kind == "Experts");
  CHECK(inside(experts, "experts").macs == Approx(kTokens * 3 * 3 * kWidth * 40));
  CHECK(inside(experts, "gate").macs == Approx(kTokens * kWidth * 8));
  CHECK(inside(experts, "shared_expert").macs == Approx(kTokens * 3 * kWidth * 24));
  CHECK(inside(experts, "shared_expert_gate").macs == Approx(kTokens * kWidth));
}

// Scores are counted as the whole square, as DeepSpeed counts them, whatever is seen of it.
TEST_CASE("windows and norms of heads change no count of scores", "[train]") {
  Qwen3Config config;
  config.num_hidden_layers = 2;
  config.num_attention_heads = config.num_key_value_heads.emplace(4);
  config.hidden_size = 64;
  config.head_dim = 16;
  config.intermediate_size = 96;
  config.vocab_size = 100;
  const ModuleProfile whole = profile_of(config, 64);
  config.use_sliding_window = true;
  config.sliding_window = 5;
  config.max_window_layers = 1;
  const ModuleProfile windowed = profile_of(config, 64);
  for (const char* const layer : {"model.layers.0", "model.layers.1"}) {
    CAPTURE(layer);
    const double macs = inside(inside(whole, layer), "self_attn").macs;
    CHECK(macs == Approx(2 * 64 * (4 * 64 * 64 + 2 * 64 * 64)).epsilon(kWithin));
    CHECK(inside(inside(windowed, layer), "self_attn").macs == Approx(macs).epsilon(1e-9));
    CHECK(inside(inside(whole, layer), "self_attn.q_norm").kind == "Qwen3RMSNorm");
    CHECK(inside(inside(whole, layer), "self_attn.k_norm").flops == Approx(2 * 64 * 64 * 5));
  }
}

TEST_CASE("modules whose names are paths have their classes", "[train]") {
  BertConfig bert;
  bert.num_hidden_layers = 2;
  bert.num_attention_heads = 4;
  bert.hidden_size = 64;
  bert.intermediate_size = 96;
  bert.vocab_size = 100;
  const ModuleProfile model = profile_of(bert, 64);
  for (const auto& [path, kind] : std::initializer_list<std::pair<const char*, const char*>>{
           {"bert", "BertModel"},
           {"bert.encoder", "Module"},
           {"bert.encoder.layer", "ModuleList"},
           {"bert.encoder.layer.1", "BertLayer"},
           {"bert.encoder.layer.1.attention", "BertAttention"},
           {"bert.encoder.layer.1.attention.self", "Module"},
           {"bert.encoder.layer.1.attention.self.query", "Linear"},
           {"bert.encoder.layer.1.attention.output.LayerNorm", "LayerNorm"},
           {"bert.encoder.layer.1.output.LayerNorm", "LayerNorm"},
           {"bert.embeddings.token_type_embeddings", "Embedding"},
           {"bert.embeddings.LayerNorm", "LayerNorm"},
           {"cls.predictions.transform.LayerNorm", "LayerNorm"},
           {"cls.predictions.decoder", "Linear"}}) {
    CAPTURE(path);
    CHECK(inside(model, path).kind == kind);
  }
  const double tokens = 2 * 64, pairs = 64 * 64;
  CHECK(inside(model, "bert.encoder.layer.0.attention").macs ==
        Approx(tokens * 4 * 64 * 64 + 2 * 2 * pairs * 64).epsilon(kWithin));
}

TEST_CASE("a module has what is inside and its own", "[train]") {
  const ModuleProfile model = profile_of(gpt2_124m(), 64);
  const std::function<void(const ModuleProfile&)> check = [&](const ModuleProfile& module) {
    double macs = 0, flops = 0;
    int64_t parameters = 0;
    for (const ModuleProfile& one : module.modules) {
      macs += one.macs;
      flops += one.flops;
      parameters += one.parameters;
      check(one);
    }
    if (module.modules.empty()) return;
    CHECK(parameters == module.parameters);  // of no module beside a leaf
    CHECK(macs <= module.macs * (1 + 1e-9));
    CHECK(flops <= module.flops * (1 + 1e-9));
  };
  check(model);
}

TEST_CASE("a profile goes to the file that is named, or is said line by line", "[train]") {
  const testing::TemporaryDirectory home;
  const std::string run = home.path().string();
  const ModuleProfile model = profile_of(gpt2_124m(), 1024);
  const ProfileFigures figures{.forward_s = 0.5, .backward_s = 1.0, .update_s = 0.25};
  const auto told = [&](FlopsProfilerConfig config) {
    testing::HeardReports heard;
    config.detailed = false;
    report_profile(heard, config, run, figures, model);
    return heard.take();
  };
  const std::vector<std::string> lines = told({});
  CHECK(std::ranges::find(lines, "Profile Summary at step 0:") != lines.end());
  RealFileSystem files;
  CHECK(files.read_text(run + "/profile.json", 1 << 20) == profile_json(figures, model));
  const std::string file = run + "/deep/profile.txt";
  CHECK(told({.output_file = file}) ==
        std::vector<std::string>{"flops_profiler writes to " + file});
  CHECK_THAT(files.read_text(file, 1 << 20), Catch::Contains("Profile Summary at step 0:"));
  // A file that cannot be written is said, and so is the profile.
  const std::vector<std::string> both = told({.output_file = file + "/below"});
  CHECK_THAT(both.front(),
             Catch::StartsWith("flops_profiler: ") && Catch::EndsWith("; training goes on"));
  CHECK(both.size() == lines.size() + 1);
}

TEST_CASE("the reports have the document's lines and columns", "[train]") {
  const ModuleProfile model = profile_of(gpt2_124m(), 1024);
  const ProfileFigures figures{.step = 10,
                               .world_size = 2,
                               .data_ranks = 2,
                               .micro_batch = 2,
                               .forward_s = 0.5,
                               .backward_s = 1.0,
                               .update_s = 0.25};
  const std::string text =
      profile_text(figures, model, {.module_depth = -1, .top_modules = 2, .detailed = true});
  for (const std::string_view line :
       {"-------------------------- DeepSpeed Flops Profiler --------------------------",
        "Profile Summary at step 10:", "world size:", "params per GPU:", "fwd latency:",
        "bwd FLOPS per GPU = 2 * fwd flops per GPU / bwd latency:", "iter latency:",
        "samples/second:                                                       2.29",
        "Top 2 modules in terms of params, MACs or fwd latency at different model depths:",
        "depth 3:", "    params      - {'GPT2LMHeadModel': '124.44 M'}",
        "GPT2LMHeadModel(124.44 M, 100.00% Params, ", "(transformer): GPT2Model(",
        "(c_attn): Conv1D(1.77 M, 1.42% Params, 3.62 GMACs, "}) {
    INFO(line);
    CHECK(text.find(line) != std::string::npos);
  }
  const std::string brief =
      profile_text(figures, model, {.module_depth = 1, .top_modules = 1, .detailed = false});
  CHECK(brief.find("depth 1:") != std::string::npos);
  CHECK(brief.find("depth 2:") == std::string::npos);
  CHECK(brief.find("Detailed Profile") == std::string::npos);
  ProfileFigures recomputed = figures;
  recomputed.recompute_factor = 1;
  CHECK(profile_text(recomputed, model, {}).find("bwd FLOPS per GPU = 3 * fwd flops") !=
        std::string::npos);
  CHECK(profile_json(figures, model)
            .find(R"("model":{"kind":"GPT2LMHeadModel","params":124439808)") != std::string::npos);
}

}  // namespace ds
