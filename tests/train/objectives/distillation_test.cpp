// Learning from a teacher: the losses that PyTorch has of the same two models
// (tests/golden/distillation) on any mesh, the same bits wherever ZeRO keeps either model, memory
// as planned, and resumes from checkpoints that do not hold the teacher.
#include <cmath>

#include "config/elastic_options.h"
#include "config/families/hf_config.h"
#include "core/values/index.h"
#include "model/families/zoo.h"
#include "model/stores/second_model.h"
#include "tests/train/objectives/golden_folder.h"
#include "tests/train/offload/offload_settings.h"
#include "tests/train/parallel/meshed_run.h"
#include "train/configured_model.h"
#include "train/teacher.h"

namespace ds {
namespace {

using namespace testing;

const std::string kCases = source_directory() + "/tests/golden/distillation";
const std::string kFamilies = source_directory() + "/tests/golden/families";

std::string path_of(const std::string& name) {
  return std::filesystem::is_directory(kCases + "/" + name) ? kCases + "/" + name
                                                            : kFamilies + "/" + name;
}

const rapidjson::Document& golden_cases() {
  static const rapidjson::Document document = [] {
    RealFileSystem files;
    rapidjson::Document parsed;
    parsed.Parse(files.read_text(kCases + "/steps.json", 1 << 20).c_str());
    return parsed;
  }();
  REQUIRE_FALSE(document.HasParseError());
  return document;
}

const rapidjson::Value& golden_case(const std::string& name) {
  for (const rapidjson::Value& one : golden_cases()["cases"].GetArray()) {
    if (one["name"].GetString() == name) return one;
  }
  throw InternalError("no case " + name);
}

std::vector<std::string> names_of_cases() {
  std::vector<std::string> names;
  for (const rapidjson::Value& one : golden_cases()["cases"].GetArray()) {
    names.emplace_back(one["name"].GetString());
  }
  return names;
}

Config config_of(const rapidjson::Value& wanted, const std::string& more = "") {
  Config config = parse_config(fmt::format(
      R"({{"model": ".", "train_batch_size": 4, "gradient_clipping": 0,
           "train": {{"steps": 5, "distillation": {{"teacher": "/teacher", "alpha": {}, "beta": {},
                      "temperature": {}}}}},
           "optimizer": {{"type": "AdamW",
                          "params": {{"lr": 1e-3, "eps": 1e-4, "weight_decay": 0}}}},
           "data": {{"train": "none.bin", "sequence_length": 16{}}}{}}})",
      wanted["alpha"].GetDouble(), wanted["beta"].GetDouble(), wanted["temperature"].GetDouble(),
      wanted.HasMember("uneven") ? R"(, "eod_mask_loss": true, "eod_token_id": 6)" : "", more));
  DistillationConfig& distillation = *config.train.distillation;
  if (wanted.HasMember("layers")) {
    distillation.layers = Value::object();
    for (const auto& pair : wanted["layers"].GetObject()) {
      distillation.layers.set(pair.name.GetString(), Value::integer(pair.value.GetInt64()));
    }
  }
  if (wanted.HasMember("layers_weight")) {
    distillation.layers_weight = wanted["layers_weight"].GetDouble();
  }
  if (wanted.HasMember("until_step")) {
    distillation.until_step = wanted["until_step"].GetInt64();
  }
  return config;
}

void copy_folder(const std::string& from, const std::string& to, FileSystem& files) {
  RealFileSystem disk;
  files.make_directories(to);
  for (const DirectoryEntry& entry : disk.list(from)) {
    const auto file = disk.open(join_path(from, entry.name));
    std::vector<std::byte> bytes(to_size(file->size()));
    file->read(0, bytes);
    files.create(join_path(to, entry.name))->append(bytes);
  }
}

Got learn(const rapidjson::Value& wanted, const Shares& share, const std::string& more = "") {
  GoldenFolder run(path_of(wanted["model"].GetString()), config_of(wanted, more));
  copy_folder(path_of(wanted["teacher"].GetString()), "/teacher", run.files);
  // What the model's folder has been trained to is of no interest.
  const std::string trained = run.folder + "/final.safetensors";
  if (run.files.exists(trained)) run.files.remove(trained);
  Config config = run.config;
  config.zero_optimization.stage = share.stage;
  config.gradient_accumulation_steps = share.micro_steps;
  const int data = share.ranks / share.sizes.sequence / share.sizes.tensor;
  const auto options = std::make_shared<const EngineOptions>(
      engine_options(config, training_model(config, run.files), data));
  return train_folder(run, share, {.source = [&](const SamplePlace& place, const BatchShape&) {
                        return std::make_unique<CountingSource>(
                            *options, place.rank, data, place.part, place.parts, place.ring);
                      }});
}

void check_steps(const Got& got, const rapidjson::Value& wanted) {
  REQUIRE(got.losses.size() == 5);
  for (rapidjson::SizeType step = 0; step < 5; ++step) {
    CAPTURE(step);
    CHECK(got.losses[step] == Approx(wanted["losses"][step].GetDouble()).epsilon(2e-6));
    CHECK(got.norms[step] == Approx(wanted["norms"][step].GetDouble()).epsilon(2e-5));
    for (const auto& [list, name] :
         {std::pair("divergences", "loss_distillation"), std::pair("hidden", "loss_hidden")}) {
      const rapidjson::Value& number = wanted[list][step];
      CAPTURE(name);
      REQUIRE(got.steps[step].find(name).has_value() == !number.IsNull());
      if (number.IsNull()) continue;
      CHECK(*got.steps[step].find(name) == Approx(number.GetDouble()).epsilon(5e-6));
    }
  }
}

bool has_other_tokens(const std::string& name) { return name == "wide" || name == "narrow"; }

TEST_CASE("a model learns from a teacher as with PyTorch, at every stage of ZeRO", "[train]") {
  for (const std::string& name : names_of_cases()) {
    const rapidjson::Value& wanted = golden_case(name);
    for (const Shares& share :
         {Shares{}, Shares{.micro_steps = 4}, Shares{.ranks = 2, .stage = 1},
          Shares{.ranks = 2, .stage = 2, .micro_steps = 2}, Shares{.ranks = 4, .stage = 3}}) {
      if (share.stage == 3 && wanted.HasMember("until_step")) continue;
      CAPTURE(name, share.ranks, share.stage, share.micro_steps);
      check_steps(learn(wanted, share), wanted);
    }
  }
}

TEST_CASE("a model learns from a teacher on any mesh", "[train]") {
  for (const std::string& name : names_of_cases()) {
    const rapidjson::Value& wanted = golden_case(name);
    for (const Shares& share : {Shares{.ranks = 2, .sizes = {.tensor = 2}},
                                Shares{.ranks = 4, .stage = 1, .sizes = {.tensor = 2}},
                                Shares{.ranks = 2, .stage = 1, .sizes = {.sequence = 2}},
                                Shares{.ranks = 2, .sizes = {.sequence = 2, .ring = 2}}}) {
      CAPTURE(name, share.ranks, share.stage, share.sizes.tensor, share.sizes.sequence,
              share.sizes.ring);
      if (share.sizes.tensor > 1 && has_other_tokens(name)) continue;
      if (share.sizes.ring > 1 && name == "masked") continue;  // a ring is for causal models
      check_steps(learn(wanted, share), wanted);
    }
  }
}

TEST_CASE("what a teacher is learnt from may be offloaded, and the model computed again",
          "[train]") {
  for (const std::string more :
       {R"(, "zero_optimization": {"offload_param": {"device": "cpu"},
                                   "offload_optimizer": {"device": "cpu"}})",
        R"(, "zero_optimization": {"offload_param": {"device": "cpu"}})",
        R"(, "activation_checkpointing": {"enabled": true, "layers_per_checkpoint": 3})"}) {
    for (const std::string name : {"hidden", "wide", "masked"}) {
      const bool offloads = more.find("offload") != std::string::npos;
      CAPTURE(more, name);
      const rapidjson::Value& wanted = golden_case(name);
      check_steps(learn(wanted, {.ranks = 2, .stage = offloads ? 3 : 1}, more), wanted);
    }
  }
}

// ---- both models wherever ZeRO keeps them

LlamaConfig small_llama() {
  LlamaConfig llama;
  llama.vocab_size = 29;
  llama.hidden_size = 24;
  llama.intermediate_size = 40;
  llama.num_hidden_layers = 3;
  llama.num_attention_heads = 2;
  llama.max_position_embeddings = 16;
  return llama;
}

// Its weights are as if drawn.
std::shared_ptr<const Teacher> teacher_in(FileSystem& files,
                                          const ModelConfig& model = small_llama()) {
  Teacher teacher{.model = model, .folder = "/teacher"};
  const std::vector<ParamSpec> specs = specs_of_model(teacher.model, DType::kF32);
  FolderFrame frame;
  frame.files["config.json"] = format_hf_config(teacher.model, DType::kF32);
  const auto value = [](size_t index, int64_t i) {
    return 0.01F * static_cast<float>((i * 37 + 11 * static_cast<int64_t>(index)) % 41) - 0.2F;
  };
  write_model_folder(files, {.folder = teacher.folder, .frame = frame, .specs = specs},
                     [&](size_t index, int64_t begin, Tensor& into) {
                       for (int64_t i = 0; i < into.numel(); ++i) {
                         into.data<float>()[i] = value(index, begin + i);
                       }
                     });
  return std::make_shared<const Teacher>(std::move(teacher));
}

EngineOptions options_with(const Setting& setting, std::shared_ptr<const Teacher> teacher) {
  EngineOptions options = options_of(setting);
  options.model.teacher = std::move(teacher);
  options.distillation = {.rule = {.alpha = 0.5, .beta = 0.5, .temperature = 2}};
  return options;
}

struct Learnt {
  Outcome got;
  EngineOptions options;
};

Learnt learn(const Setting& setting, FileSystem& disk, int64_t until) {
  EngineOptions options = options_with(setting, teacher_in(disk));
  Outcome got = train(setting, options, disk, until);
  return {.got = std::move(got), .options = std::move(options)};
}

Learnt learn(const Setting& setting, int64_t until = 3) {
  MemoryFileSystem disk;
  return learn(setting, disk, until);
}

TEST_CASE("a teacher has the same bits at every stage and on every tier, and memory as planned",
          "[train]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Setting plain{.ranks = 2, .dtype = dtype, .micro_steps = 2};
    const Learnt expected = learn(plain);
    std::vector<Setting> settings{plain};
    for (int stage = 1; stage <= 3; ++stage) {
      settings.push_back(plain);
      settings.back().stage = stage;
    }
    const Setting sharded = settings.back();
    for (const Setting& offloaded : offloads_of_both(sharded)) settings.push_back(offloaded);
    settings.push_back(sharded);
    settings.back().recomputed.recompute.part = RecomputedPart::kBlock;
    for (const Setting& setting : settings) {
      CAPTURE(words_of(setting), name_of(dtype));
      const Learnt learnt = learn(setting);
      CHECK(learnt.got.state == expected.got.state);
      CHECK(learnt.got.losses == expected.got.losses);
      check_plan(setting, learnt.options, learnt.got);
    }
  }
}

TEST_CASE("a teacher drops nothing of what it says", "[train]") {
  const Setting setting{.micro_steps = 2};
  const auto losses_with = [&](double dropout) {
    MemoryFileSystem disk;
    const EngineOptions options = options_with(setting, teacher_in(disk, small_gpt2(dropout)));
    return train(setting, options, disk, 2).losses;
  };
  CHECK(losses_with(0.5) == losses_with(0));
}

TEST_CASE("a teacher stays as it is, and takes neither gradients nor state", "[train]") {
  const Setting setting{.ranks = 2, .stage = 1};
  const Learnt before = learn(setting, 0), after = learn(setting, 3);
  int64_t of_teacher = 0;
  for (const auto& [name, values] : after.got.state) {
    if (!name.starts_with(kTeacherPrefix)) continue;
    CAPTURE(name);
    CHECK(name.ends_with("/weight"));
    CHECK(values == before.got.state.at(name));
    of_teacher += std::ssize(values);
  }
  const RunPlan plan = dry_run(after.options, mesh_of(setting), {});
  CHECK(plan.teacher() == of_teacher);
  const RunPlan alone = dry_run(options_of(setting), mesh_of(setting), {});
  CHECK(plan.parameters() == alone.parameters());
  CHECK(plan.frozen() == 0);
  const auto bytes_of = [](const RunPlan& of, MemoryTag tag) {
    return nth(nth(of.of_rank(0).memory, Tier::kDevice).tag_bytes_at_peak, static_cast<int>(tag));
  };
  for (const MemoryTag tag : {MemoryTag::kGradients, MemoryTag::kOptimizer}) {
    CHECK(bytes_of(plan, tag) == bytes_of(alone, tag));
  }
  CHECK(plan_text(plan, after.options).find("teacher       ") != std::string::npos);
}

TEST_CASE("a run with a teacher goes on anywhere from checkpoints that do not hold it", "[train]") {
  const auto state_of = [](const Setting& setting, FileSystem& disk, int64_t until) {
    return learn(setting, disk, until).got.state;
  };
  const Setting first{.ranks = 2, .stage = 3, .params = Tier::kHost};
  MemoryFileSystem whole_disk, disk;
  const auto whole = state_of(first, whole_disk, 4);
  state_of(first, disk, 2);
  const auto bytes_of_tag = [](FileSystem& files) {
    int64_t bytes = 0;
    const std::string tag = "/run/checkpoints/global_step2";
    for (const DirectoryEntry& entry : files.list(tag)) {
      bytes += files.open(join_path(tag, entry.name))->size();
    }
    return bytes;
  };
  MemoryFileSystem alone;
  train(first, options_of(first), alone, 2);
  CHECK(bytes_of_tag(disk) == bytes_of_tag(alone));
  for (const Setting& other : {first, Setting{.ranks = 1}, Setting{.ranks = 3, .stage = 2},
                               Setting{.ranks = 2, .stage = 3}}) {
    CAPTURE(other.ranks, other.stage);
    const auto got = state_of(other, disk, 4);
    for (const auto& [name, values] : whole) {
      CAPTURE(name);
      CHECK(got.at(name) == values);
    }
  }
}

// ---- what is refused

std::string refusal(const std::string& model, const std::string& teacher,
                    const std::string& distillation, const std::string& more = "") {
  Config config = parse_config(fmt::format(
      R"({{"model": ".", "train_batch_size": 4,
           "train": {{"steps": 5, "distillation": {{"teacher": "/teacher"{}}}}},
           "optimizer": {{"type": "AdamW", "params": {{"lr": 1e-3}}}},
           "data": {{"train": "none.bin", "sequence_length": 16}}{}}})",
      distillation, more));
  GoldenFolder run(path_of(model), std::move(config));
  copy_folder(path_of(teacher), "/teacher", run.files);
  try {
    const ModelConfig both = training_model(run.config, run.files);
    engine_options(run.config, both, narrow<int>(tensor_ranks(run.config)));
    open_teacher(run.files, "/teacher", specs_of_model(both.teacher->model, DType::kF32));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a teacher that cannot be learnt from is refused by name", "[train]") {
  const auto contains = [](const std::string& text, const std::string& part) {
    CAPTURE(text, part);
    CHECK(text.starts_with("train.distillation."));
    CHECK(text.find(part) != std::string::npos);
  };
  CHECK(refusal("qwen2", "gpt_neox", "").empty());
  contains(refusal("bert", "roberta", ""), "it tells 1 kinds of segments apart, and the model 2");
  contains(refusal("qwen2", "bert", ""), "it tells masked tokens, and the model next tokens");
  contains(refusal("qwen2", "../classifiers/llama", ""), "classes of texts");
  contains(refusal("qwen2", "wide", R"(, "layers": {"1": 1})"), "expected the same width");
  contains(refusal("qwen2", "gpt_neox", R"(, "layers": {"3": 1})"), "which have 2 and 2 blocks");
  contains(refusal("qwen2", "wide", "", R"(, "tensor_parallel": {"autotp_size": 2})"),
           "expected the same number");
  contains(refusal("qwen2", "gpt_neox", R"(, "layers": {"1": 1})",
                   R"(, "tensor_parallel": {"autotp_size": 2, "sequence_parallel": true})"),
           "excludes tensor_parallel.sequence_parallel");
}

}  // namespace
}  // namespace ds
