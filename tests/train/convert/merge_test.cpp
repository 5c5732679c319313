// Adapters that are merged into their model by convert(): what comes of it, and what is refused.
#include <filesystem>
#include <functional>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/adapter_folder.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/golden.h"
#include "train/convert/convert.h"

namespace ds {
namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, std::vector<float>>;

std::string golden(const std::string& name) {
  return testing::source_directory() + "/tests/golden/" + name;
}

// What an error of the kind says; others go through.
template <class Kind>
std::string refusal_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const Kind& error) {
    return error.what();
  }
  return "nothing was refused";
}

// A folder of adapters of a model in tests/golden, and places beside it.
struct Case {
  explicit Case(const std::string& model, AdapterSpec with = {.rank = 2, .alpha = 6})
      : base(golden(model)), spec(std::move(with)) {
    testing::write_adapters(files, {.folder = place("adapters"), .base = base, .spec = spec});
  }
  std::string place(const std::string& name) const { return (root.path() / name).string(); }
  Conversion conversion() const {
    return {.source = place("adapters"),
            .destination = place("out"),
            .wanted = WantedSource::kAdapters};
  }
  Converted merge() { return merge(conversion()); }
  Converted merge(const Conversion& what) { return convert(files, what); }
  void write(const std::string& name, const std::string& text) {
    files.write_text_atomically(place("adapters/" + name), text);
  }
  std::string text(const std::string& name) {
    return files.read_text(place("adapters/" + name), 1 << 24);
  }
  bool is_left() const { return fs::exists(place("out")) || fs::exists(place("out.partial")); }

  RealFileSystem files;
  testing::TemporaryDirectory root;
  std::string base;
  AdapterSpec spec;
};

// W + s B A of one module, whose weight is [in, out] where `inputs_first`.
std::vector<float> sum_of(const std::vector<float>& weight, const std::vector<float>& a,
                          const std::vector<float>& b, size_t rank, float scale,
                          bool inputs_first) {
  const size_t in = a.size() / rank, out = b.size() / rank;
  std::vector<float> sum = weight;
  for (size_t o = 0; o < out; ++o) {
    for (size_t i = 0; i < in; ++i) {
      float product = 0;
      for (size_t r = 0; r < rank; ++r) product += b[o * rank + r] * a[r * in + i];
      sum[inputs_first ? i * out + o : o * in + i] += scale * product;
    }
  }
  return sum;
}

// Returns how many weights had an adapter.
size_t check_merged(const Case& c, const Tensors& base, const Tensors& adapters,
                    const Tensors& merged, float scale) {
  const bool inputs_first = base.contains("transformer.wte.weight");
  size_t adapted = 0;
  CHECK(base.size() == merged.size());
  for (const auto& [name, weight] : base) {
    CAPTURE(name);
    const std::string module =
        std::string(adapter_names::kPrefix) + name.substr(0, name.rfind('.'));
    const auto a = adapters.find(module + ".lora_A.weight");
    REQUIRE(merged.contains(name));
    if (a == adapters.end() || !name.ends_with(".weight")) {
      CHECK(merged.at(name) == weight);
      continue;
    }
    ++adapted;
    const std::vector<float> wanted =
        sum_of(weight, a->second, adapters.at(module + ".lora_B.weight"), to_size(c.spec.rank),
               scale, inputs_first);
    REQUIRE(wanted.size() == merged.at(name).size());
    float apart = 0, added = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      apart = std::max(apart, std::abs(wanted[i] - merged.at(name)[i]));
      added = std::max(added, std::abs(wanted[i] - weight[i]));
    }
    CHECK(apart <= 1e-6F);
    CHECK(added > 1e-2F);
  }
  return adapted;
}

TEST_CASE("W + s B A stands in the place of W, whatever way a family stores it", "[train]") {
  for (const auto& [model, spec, scale, modules] :
       {std::tuple{"supervised/model", AdapterSpec{.rank = 2, .alpha = 6, .targets = {"q_proj"}},
                   3.0F, size_t{2}},
        std::tuple{"families/gpt2_scaled",
                   AdapterSpec{.rank = 4, .alpha = 6, .scales_by_root = true}, 3.0F, size_t{12}},
        std::tuple{"families/phi3", AdapterSpec{.rank = 3, .alpha = 6}, 2.0F, size_t{8}}}) {
    CAPTURE(model);
    Case c(model, spec);
    const Converted done = c.merge();
    CHECK_THAT(done.notes.back(), Catch::Contains("merged"));
    const Tensors base = testing::tensors_in(c.files, c.base + "/model.safetensors");
    const Tensors merged = testing::tensors_in(c.files, c.place("out/model.safetensors"));
    const Tensors adapters =
        testing::tensors_in(c.files, c.place("adapters/adapter_model.safetensors"));
    CHECK(check_merged(c, base, adapters, merged, scale) == modules);
    CHECK(done.tensors == static_cast<int64_t>(merged.size()));
    CHECK_FALSE(fs::exists(c.place("out/adapter_config.json")));
  }
}

TEST_CASE("sums are rounded once to the type that is asked for, in either format", "[train]") {
  Case c("supervised/model");
  Conversion what = c.conversion();
  what.dtype = DType::kBF16;
  what.target = ConversionTarget::kBin;
  const Converted done = c.merge(what);
  CHECK(done.bytes == 2 * done.numel);
  const WeightFolder made = WeightFolder::open(c.files, c.place("out/pytorch_model.bin"));
  CHECK(made.info("model.layers.0.self_attn.q_proj.weight").stored_dtype == DType::kBF16);
  CHECK_THAT(c.files.read_text(c.place("out/config.json"), 1 << 20), Catch::Contains("bfloat16"));
}

TEST_CASE("a merged model has the tokenizer of its adapters, or else of their model", "[train]") {
  Case c("supervised/model");
  c.merge();
  CHECK(fs::exists(c.place("out/tokenizer.json")));
  for (const char* const name : {"tokenizer.json", "tokenizer_config.json"}) {
    fs::copy(c.base + "/" + name, c.place("adapters"));
  }
  c.write("chat_template.jinja", "{{ 'of the adapters' }}");
  fs::remove_all(c.place("out"));
  c.merge();
  CHECK(c.files.read_text(c.place("out/chat_template.jinja"), 1 << 20) ==
        "{{ 'of the adapters' }}");
}

TEST_CASE("the folder of the model is that of --base, or lies where the adapters say", "[train]") {
  Case c("supervised/model");
  const std::string config = c.text("adapter_config.json");
  const auto name_base = [&](const std::string& base) {
    std::string text = config;
    c.write("adapter_config.json", text.replace(text.find(c.base), c.base.size(), base));
  };
  fs::create_directory_symlink(c.base, c.place("beside"));
  name_base("../beside");
  c.merge();
  fs::remove_all(c.place("out"));
  name_base("meta-llama/Llama-2-7b");
  CHECK_THAT(
      refusal_of<InputMissing>([&] { c.merge(); }),
      (Catch::Contains("meta-llama/Llama-2-7b, which is no folder") && Catch::Contains("--base")));
  Conversion what = c.conversion();
  what.base = c.base;
  c.merge(what);
  fs::remove_all(c.place("out"));
  what.base = c.place("gone");
  CHECK_THAT(refusal_of<InputMissing>([&] { c.merge(what); }),
             (Catch::StartsWith("--base ") && Catch::Contains("gone: no folder of a model")));
  CHECK_FALSE(c.is_left());
}

TEST_CASE("what has no adapters is refused where they are asked for, and merged where not",
          "[train]") {
  Case c("supervised/model");
  Conversion what = c.conversion();
  what.source = c.base;
  CHECK_THAT(refusal_of<UsageError>([&] { c.merge(what); }),
             Catch::Contains("it has no adapters to merge"));
  what.source = c.place("gone");
  CHECK_THAT(refusal_of<InputMissing>([&] { c.merge(what); }),
             Catch::Contains("there is no such file or folder"));
  what = c.conversion();
  what.wanted = WantedSource::kAny;
  what.target = ConversionTarget::kUniversal;
  CHECK_THROWS_AS(c.merge(what), Unsupported);
  what.target = ConversionTarget::kHf;
  CHECK(c.merge(what).tensors == 21);
}

TEST_CASE("options about other sources are refused beside adapters, and a base beside others",
          "[train]") {
  Case c("supervised/model");
  Conversion what = c.conversion();
  what.wanted = WantedSource::kAny;
  for (const auto& [name, member] :
       {std::pair{"--tag", &Conversion::tag}, std::pair{"--config", &Conversion::config},
        std::pair{"--map", &Conversion::name_map}}) {
    Conversion other = what;
    other.*member = "x";
    CHECK_THAT(refusal_of<UsageError>([&] { c.merge(other); }),
               Catch::StartsWith(std::string(name) + " x: "));
  }
  what.source = c.base;
  what.base = c.base;
  CHECK_THAT(refusal_of<UsageError>([&] { c.merge(what); }),
             Catch::Contains("is no folder of adapters"));
}

TEST_CASE("adapters of another model, and tensors that nobody knows, are named", "[train]") {
  Case c("supervised/model");
  Conversion what = c.conversion();
  what.base = golden("families/qwen2");
  CHECK_THAT(refusal_of<DataError>([&] { c.merge(what); }),
             Catch::Contains("adapter_model.safetensors"));
  const std::string path = c.place("adapters/adapter_model.safetensors");
  const std::vector<float> value(4);
  const auto write_one = [&](const std::string& name) {
    const SafetensorsTensor one{name, DType::kF32, {4}, std::as_bytes(std::span(value))};
    write_safetensors(c.files, path, std::span(&one, 1));
  };
  write_one("base_model.model.model.embed_tokens.lora_embedding_A");
  CHECK_THAT(refusal_of<DataError>([&] { c.merge(); }),
             Catch::Contains("embed_tokens.lora_embedding_A"));
  write_one("model.layers.0.self_attn.q_proj.lora_A.weight");
  CHECK_THAT(refusal_of<DataError>([&] { c.merge(); }),
             Catch::Contains("does not begin with base_model.model."));
  const std::vector<float> a(32);
  const SafetensorsTensor alone{"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
                                DType::kF32,
                                {2, 16},
                                std::as_bytes(std::span(a))};
  write_safetensors(c.files, path, std::span(&alone, 1));
  CHECK_THAT(refusal_of<DataError>([&] { c.merge(); }),
             Catch::Contains("weights without model.layers.0.self_attn.q_proj.lora_B.weight"));
  fs::remove(path);
  CHECK_THROWS_AS(c.merge(), InputMissing);
  CHECK_FALSE(c.is_left());
}

TEST_CASE("an adapter_config.json that is broken, deep, huge or of another method is refused",
          "[train]") {
  Case c("supervised/model");
  const std::string name = "adapter_config.json";
  for (const std::string& text : {std::string("{"), std::string("[1]"), std::string(),
                                  std::string(1 << 20, '['), std::string(2 << 20, ' ') + "{}"}) {
    c.write(name, text);
    CHECK_THAT(refusal_of<DataError>([&] { c.merge(); }), Catch::Contains(name));
  }
  for (const auto& [text, said] :
       {std::pair{R"({"peft_type": "IA3"})", "\"peft_type\" = \"IA3\""},
        std::pair{R"({"peft_type": "LORA", "lora_bias": true})", "\"lora_bias\" = true"},
        std::pair{R"({"peft_type": "LORA", "init_lora_weights": "pissa"})", "pissa"}}) {
    c.write(name, text);
    CHECK_THAT(refusal_of<Unsupported>([&] { c.merge(); }), Catch::Contains(said));
  }
  c.write(name, R"({"peft_type": "LORA", "r": -1})");
  CHECK_THAT(refusal_of<DataError>([&] { c.merge(); }), Catch::Contains("\"r\""));
  CHECK_FALSE(c.is_left());
}

TEST_CASE("a merge that ends early leaves nothing, and one over a folder does not begin",
          "[train]") {
  Case c("supervised/model");
  Conversion what = c.conversion();
  int reads = 0;
  what.go_on = [&] {
    CHECK(fs::exists(c.place("out.partial")));
    CHECK_FALSE(fs::exists(c.place("out")));
    if (++reads == 5) throw DataError("enough");
  };
  CHECK_THROWS_WITH(c.merge(what), "enough");
  CHECK(reads == 5);
  CHECK_FALSE(c.is_left());
  c.files.make_directories(c.place("out"));
  CHECK_THAT(refusal_of<UsageError>([&] { c.merge(); }), Catch::Contains("is there already"));
}

}  // namespace
}  // namespace ds
