// Every family of the list at toy size: it trains alike however its layers, heads and samples are
// shared out, takes the memory that was planned, and comes back from its Hugging Face folder.
#include <algorithm>
#include <numeric>

#include "config/families/hf_config.h"
#include "config/sections/split/partition_rules.h"
#include "model/families/zoo.h"
#include "model/hf/safetensors.h"
#include "model/hf/weights.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/tiny_models.h"
#include "tests/train/parallel/meshed_run.h"

namespace ds {
namespace {

using namespace testing;

// These have the sizes that small runs have, and the last two what no family has by default.
std::vector<ModelConfig> families() {
  std::vector<ModelConfig> out;
  for (const ModelConfig& tiny : tiny_models(2)) {
    ModelDimensions dims = dimensions(tiny);
    dims.vocabulary = 29;
    dims.positions = 16;
    out.push_back(with_dimensions(tiny, dims));
  }
  OptConfig narrow = tiny_opt(2);
  narrow.vocab_size = 29;
  narrow.max_position_embeddings = 16;
  narrow.word_embed_proj_dim = 6;
  narrow.do_layer_norm_before = false;
  out.emplace_back(narrow);
  auto stablelm = tiny_like_llama<StableLmConfig>(2);
  stablelm.vocab_size = 29;
  stablelm.max_position_embeddings = 16;
  stablelm.qk_layernorm = stablelm.use_parallel_residual = true;
  stablelm.partial_rotary_factor = 0.5;
  out.emplace_back(stablelm);
  return out;
}

// Models whose keys say something else than the defaults.
std::vector<ModelConfig> variants() {
  auto phi3 = testing::tiny_like_llama<Phi3Config>(2);
  phi3.original_max_position_embeddings = 4;
  phi3.rope_scaling = RopeScaling{
      .rope_type = "longrope", .length_factor = 2, .short_factor = {1, 1.5}, .long_factor = {2, 3}};
  auto smollm3 = testing::tiny_like_llama<SmolLM3Config>(5);
  smollm3.no_rope_layer_interval = 3;
  auto starcoder2 = testing::tiny_like_llama<Starcoder2Config>(1);
  starcoder2.use_bias = false;
  auto gpt_neox = testing::tiny_like_llama<GptNeoXConfig>(1);
  gpt_neox.rotary_pct = 1;
  gpt_neox.use_parallel_residual = false;
  gpt_neox.attention_bias = false;
  gpt_neox.tie_word_embeddings = true;
  auto opt = testing::tiny_opt(1);
  opt.do_layer_norm_before = opt.enable_bias = opt.tie_word_embeddings = false;
  auto roberta = testing::tiny_like_bert<RobertaConfig>(1);
  roberta.max_position_embeddings = 17;
  roberta.pad_token_id = 4;
  auto modern = testing::tiny_modernbert(4);
  modern.global_attn_every_n_layers = 3;
  modern.norm_bias = modern.attention_bias = modern.mlp_bias = modern.classifier_bias = true;
  modern.decoder_bias = false;
  return {phi3, smollm3, starcoder2, gpt_neox, opt, roberta, modern};
}

// Other numbers for each parameter.
std::vector<float> numbers_of(const ParamSpec& spec) {
  std::vector<float> out(to_size(spec.shape.numel()));
  std::iota(out.begin(), out.end(), static_cast<float>(spec.name.size()));
  return out;
}

void write_weights(FileSystem& files, const std::string& path, std::span<const ParamSpec> specs) {
  const std::vector<ExportTensor> all = export_list(specs, DType::kF32);
  std::vector<SafetensorsTensor> list;
  for (const ExportTensor& entry : all) list.push_back(entry.tensor);
  SafetensorsWriter writer(files, path, list);
  for (const auto& [tensor, parts, begin] : all) {
    std::vector<float> whole(to_size(tensor.shape.numel()));
    for (const ParamSpec* const spec : parts) {
      const std::vector<float> own = numbers_of(*spec);
      if (spec->pieces.empty()) {
        place_rows(*spec, own, whole);
      } else {
        std::ranges::copy(std::span(own).subspan(to_size(begin), whole.size()), whole.begin());
      }
    }
    writer.write(tensor.name, std::as_bytes(std::span(whole)));
  }
  writer.finish();
}

// What rules of partitions are matched with are names of tensors in folders.
void require_names(const std::vector<SplitWeight>& split, const std::vector<ExportTensor>& all) {
  for (const SplitWeight& weight : split) {
    CAPTURE(weight.name);
    CHECK(std::ranges::any_of(
        all, [&](const ExportTensor& entry) { return entry.tensor.name == weight.name; }));
  }
}

TEST_CASE("every family trains alike on any mesh, and as planned", "[train]") {
  for (const ModelConfig& model : families()) {
    CAPTURE(family_name(model));
    const Outcome alone = run_model({.micro_steps = 2}, model, 3);
    CHECK(alone.losses.back() != alone.losses.front());
    for (const Setting& setting :
         {Setting{.ranks = 2, .tensor = 2, .micro_steps = 2},
          Setting{.ranks = 2, .tensor = 2, .micro_steps = 2, .shares_rows = true},
          Setting{.ranks = 4, .tensor = 4, .stage = 1, .micro_steps = 2},
          Setting{.ranks = 2, .pipe = 2, .micro_steps = 2},
          Setting{.ranks = 2, .sequence = 2, .stage = 3, .micro_steps = 2},
          Setting{.ranks = 2, .sequence = 2, .micro_steps = 2, .ring = 2},
          Setting{.ranks = 4, .sequence = 4, .micro_steps = 2, .ring = 4},
          Setting{.ranks = 4, .sequence = 4, .micro_steps = 2, .ring = 2},
          Setting{.ranks = 2, .stage = 3, .micro_steps = 2}}) {
      CAPTURE(setting.tensor, setting.pipe, setting.sequence, setting.ring, setting.stage);
      require_losses_near(run_model(setting, model, 3), alone, 1e-5);
      moved_by(setting, options_with(setting, model));  // each rank has the memory of its plan
    }
  }
}

TEST_CASE("every family trains alike on documents and uneven weights, on any mesh", "[train]") {
  const BatchContent all{.key_ranges = true, .positions = true, .weights = true, .is_uneven = true};
  for (const ModelConfig& model : families()) {
    CAPTURE(family_name(model));
    const Outcome alone = run_model({.micro_steps = 2, .content = all}, model, 3);
    const Outcome plain = run_model({.micro_steps = 2}, model, 3);
    CHECK(alone.losses.front() != Approx(plain.losses.front()).epsilon(1e-4));
    // However many micro-steps the global batch is made in.
    const Outcome split = run_model({.micro_steps = 6, .content = all}, model, 3);
    for (size_t step = 0; step < split.losses.size(); ++step) {
      CHECK(split.losses[step] == Approx(alone.losses[step]).epsilon(1e-5));
    }
    for (Setting with :
         {Setting{.ranks = 2, .stage = 3}, Setting{.ranks = 4, .tensor = 2, .stage = 1},
          Setting{.ranks = 2, .tensor = 2, .shares_rows = true}, Setting{.ranks = 2, .pipe = 2},
          Setting{.ranks = 4, .pipe = 4}, Setting{.ranks = 2, .sequence = 2, .stage = 2},
          Setting{.ranks = 2, .sequence = 2, .ring = 2},
          Setting{.ranks = 4, .sequence = 4, .stage = 3, .ring = 2}}) {
      CAPTURE(with.ranks, with.tensor, with.pipe, with.sequence, with.ring);
      with.micro_steps = 2;
      with.content = all;
      require_losses_near(run_model(with, model, 3), alone, 1e-5);
      moved_by(with, options_with(with, model));
    }
  }
}

TEST_CASE("every family goes on among other ranks", "[train]") {
  for (const ModelConfig& model : families()) {
    CAPTURE(family_name(model));
    const Setting one, split{.ranks = 2, .tensor = 2}, repeated{.ranks = 4, .tensor = 4};
    const Outcome whole = run_model(one, model, 4);
    require_goes_on(split, one, model, whole);
    require_goes_on(one, split, model, whole);
    require_goes_on(split, repeated, model, whole);
  }
}

TEST_CASE("every family comes back from its Hugging Face folder", "[train]") {
  std::vector<ModelConfig> models = families();
  for (ModelConfig& other : variants()) models.push_back(std::move(other));
  for (const ModelConfig& model : models) {
    CAPTURE(family_name(model));
    MemoryFileSystem files;
    CpuStream cpu;
    const std::string text = format_hf_config(model, DType::kF32);
    files.make_directories("/m");
    files.create("/m/config.json")->write(0, std::as_bytes(std::span(text)));
    const ModelConfig read = read_hf_config(files, "/m");
    CHECK(format_hf_config(read, DType::kF32) == text);
    const std::vector<ParamSpec> specs = specs_of_model(model, DType::kF32);
    const std::vector<ParamSpec> again = specs_of_model(read, DType::kF32);
    REQUIRE(specs.size() == again.size());
    require_names(split_weights(model), export_list(specs, DType::kF32));
    for (size_t i = 0; i < specs.size(); ++i) {
      CHECK(again[i].name == specs[i].name);
      CHECK(again[i].shape == specs[i].shape);
    }
    write_weights(files, "/m/model.safetensors", specs);
    const HfWeights weights(files, "/m", again);
    for (size_t i = 0; i < again.size(); ++i) {
      Tensor flat = Tensor::empty({again[i].shape.numel()}, DType::kF32, cpu.stream);
      weights.read(i, 0, flat);
      CHECK(std::vector<float>(flat.data<float>(), flat.data<float>() + flat.numel()) ==
            numbers_of(again[i]));
    }
  }
}

}  // namespace
}  // namespace ds
