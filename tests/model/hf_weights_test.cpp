// Weights of a Hugging Face folder: names, ranges, conversions, and refusal of what does not fit.
#include <numeric>

#include "core/values/index.h"
#include "model/hf/weights.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;
using testing::CpuStream;

namespace {

ParamSpec spec(const std::string& name, const Shape& shape) {
  return {.name = name, .shape = shape, .dtype = DType::kF32, .init = {}, .unit = 0};
}

const std::vector<ParamSpec> kSpecs = {spec("transformer.wte.weight", {2, 3}),
                                       spec("transformer.ln_f.bias", {3})};
const std::array<float, 6> kTable = {1, 2, 3, 4, 5, 6};
const std::array<BF16, 3> kBias = {BF16(0.5F), BF16(-1.0F), BF16(8.0F)};

SafetensorsTensor table(const std::string& name, const Shape& shape = {2, 3}) {
  return {name, DType::kF32, shape, std::as_bytes(std::span(kTable))};
}
SafetensorsTensor bias(const std::string& name) {
  return {name, DType::kBF16, Shape{3}, std::as_bytes(std::span(kBias))};
}

std::string refusal(const std::vector<SafetensorsTensor>& stored,
                    const std::vector<ParamSpec>& specs = kSpecs) {
  MemoryFileSystem fs;
  write_safetensors(fs, "/model.safetensors", stored);
  try {
    const HfWeights weights(fs, "/", specs);
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a rank reads its range of a parameter in its own dtype", "[model]") {
  MemoryFileSystem fs;
  write_safetensors(fs, "/model.safetensors",
                    {{table("transformer.wte.weight"), bias("transformer.ln_f.bias")}});
  const HfWeights weights(fs, "/", kSpecs);
  CHECK(weights.bytes() == 24 + 6);
  CpuStream cpu;
  Tensor part = Tensor::empty({3}, DType::kF32, cpu.stream);
  weights.read(0, 2, part);
  CHECK(part.data<float>()[0] == 3);
  CHECK(part.data<float>()[2] == 5);
  weights.read(1, 0, part);
  CHECK(part.data<float>()[2] == 8);
  Tensor half = Tensor::empty({2}, DType::kF16, cpu.stream);
  weights.read(1, 1, half);
  CHECK(static_cast<float>(half.data<F16>()[0]) == -1);
  CHECK_THROWS_AS(weights.read(1, 2, part), InternalError);
}

TEST_CASE("of a parameter that is cut a rank reads what it has", "[model]") {
  MemoryFileSystem fs;
  write_safetensors(
      fs, "/model.safetensors",
      {{table("transformer.wte.weight"), bias("transformer.ln_f.bias"), table("lm_head.weight")}});
  std::vector<ParamSpec> specs = kSpecs;
  specs[0].global = specs[0].shape;
  specs[0].cut = {{{{0, 2}}, {{0, 1}, {2, 3}}}};  // both rows of the columns 0 and 2
  specs[0].shape = {2, 2};
  const HfWeights weights(fs, "/", specs);
  CpuStream cpu;
  Tensor part = Tensor::empty({3}, DType::kF32, cpu.stream);
  weights.read(0, 1, part);
  CHECK(std::vector(part.data<float>(), part.data<float>() + 3) == std::vector<float>{3, 4, 6});
  CHECK_THROWS_AS(weights.read(0, 2, part), InternalError);
}

TEST_CASE("names without the body's prefix, old buffers and a tied head are taken", "[model]") {
  CHECK(refusal({table("wte.weight"), bias("ln_f.bias"), bias("h.0.attn.bias"),
                 bias("gpt_neox.layers.0.attention.bias"),
                 bias("gpt_neox.layers.0.attention.masked_bias"), table("lm_head.weight")}) ==
        "accepted");
}

TEST_CASE("a head of its own is found by the name of any family", "[model]") {
  std::vector<ParamSpec> specs = kSpecs;
  specs.push_back(spec("embed_out.weight", {2, 3}));
  for (const char* const name : {"embed_out.weight", "lm_head.weight"}) {
    CHECK(refusal({table("wte.weight"), bias("ln_f.bias"), table(name)}, specs) == "accepted");
    CHECK(refusal({table("wte.weight"), bias("ln_f.bias"), table(name)}) == "accepted");  // tied
  }
  CHECK_THAT(refusal({table("wte.weight"), bias("ln_f.bias")}, specs),
             Catch::Contains("embed_out.weight"));
}

TEST_CASE("a stored head that is tied must be the embeddings", "[model]") {
  CpuStream cpu;
  Tensor part = Tensor::empty({2}, DType::kF32, cpu.stream);
  std::array<float, 6> other = kTable;
  other[4] = 7;
  const SafetensorsTensor head = {
      "lm_head.weight", DType::kF32, {2, 3}, std::as_bytes(std::span(other))};
  MemoryFileSystem fs;
  write_safetensors(fs, "/model.safetensors", {{table("wte.weight"), bias("ln_f.bias"), head}});
  const HfWeights weights(fs, "/", kSpecs);
  CHECK_NOTHROW(weights.read(0, 0, part));
  CHECK_THROWS_AS(weights.read(0, 4, part), DataError);
  CHECK_THROWS_WITH(weights.read(0, 3, part),
                    Catch::Contains("lm_head.weight differs from wte.weight"));
  // One of its own is a parameter like any other.
  std::vector<ParamSpec> untied = kSpecs;
  untied.push_back(spec("lm_head.weight", {2, 3}));
  const HfWeights apart(fs, "/", untied);
  CHECK_NOTHROW(apart.read(0, 3, part));
  apart.read(2, 3, part);
  CHECK(part.data<float>()[1] == 7);
  CHECK_THAT(refusal({table("wte.weight"), bias("ln_f.bias"), table("lm_head.weight", {3, 2})}),
             Catch::Contains("lm_head.weight has shape"));
}

TEST_CASE("of a tied pair the folder may have the head alone", "[model]") {
  CpuStream cpu;
  MemoryFileSystem fs;
  write_safetensors(fs, "/model.safetensors", {{table("lm_head.weight"), bias("ln_f.bias")}});
  const HfWeights weights(fs, "/", kSpecs);
  Tensor part = Tensor::empty({2}, DType::kF32, cpu.stream);
  weights.read(0, 3, part);
  CHECK(part.data<float>()[1] == 5);
  CHECK_FALSE(weights.tied_embeddings());  // there is nothing to compare it with
  std::vector<ParamSpec> untied = kSpecs;
  untied.push_back(spec("lm_head.weight", {2, 3}));
  CHECK_THAT(refusal({table("lm_head.weight"), bias("ln_f.bias")}, untied),
             Catch::Contains("weights without transformer.wte.weight"));
  CHECK_THAT(refusal({table("lm_head.weight", {3, 2}), bias("ln_f.bias")}),
             Catch::Contains("has shape"));
}

TEST_CASE("the folder's own names are kept for an export", "[model]") {
  MemoryFileSystem fs;
  write_safetensors(fs, "/model.safetensors",
                    {{table("wte.weight"), bias("transformer.ln_f.bias")}});
  const HfWeights weights(fs, "/", kSpecs);
  CHECK(weights.stored_name(0) == "wte.weight");
  CHECK(weights.stored_name(1) == "transformer.ln_f.bias");
}

TEST_CASE("missing, misshapen and unknown weights are refused by name", "[model]") {
  using Catch::Contains;
  CHECK_THAT(refusal({table("wte.weight")}), Contains("transformer.ln_f.bias"));
  CHECK_THAT(refusal({table("wte.weight", {3, 2}), bias("ln_f.bias")}),
             Contains("transformer.wte.weight") && Contains("[3, 2]") && Contains("[2, 3]"));
  CHECK_THAT(refusal({table("wte.weight"), bias("ln_f.bias"), bias("h.0.extra")}),
             Contains("h.0.extra"));
}

TEST_CASE("the export list names every parameter once", "[model]") {
  const auto list = export_list(kSpecs, DType::kBF16);
  REQUIRE(list.size() == 2);
  CHECK(list[0].tensor.name == "transformer.wte.weight");
  CHECK(list[0].tensor.dtype == DType::kBF16);
  CHECK(list[1].tensor.shape == Shape{3});
}

namespace {

// Two experts of [2, 3], of which a folder has each matrix by itself.
ParamSpec stacked_spec() {
  return {.name = "model.mlp.experts.gate_up_proj",
          .shape = {2, 4, 3},
          .pieces = {"model.mlp.experts.0.gate.weight", "model.mlp.experts.0.up.weight",
                     "model.mlp.experts.1.gate.weight", "model.mlp.experts.1.up.weight"}};
}

// Numbers from `first` on.
SafetensorsTensor counted(const std::string& name, const Shape& shape, float first,
                          std::vector<std::vector<float>>& memory) {
  std::vector<float>& values = memory.emplace_back(to_size(shape.numel()));
  std::iota(values.begin(), values.end(), first);
  return {name, DType::kF32, shape, std::as_bytes(std::span(values))};
}

}  // namespace

TEST_CASE("a parameter is read from the pieces that a folder has of it", "[model]") {
  testing::CpuStream cpu;
  const ParamSpec spec = stacked_spec();
  std::vector<std::vector<float>> memory;
  std::vector<SafetensorsTensor> stored;
  for (size_t i = 0; i < spec.pieces.size(); ++i) {
    stored.push_back(counted(spec.pieces[i].substr(6), {2, 3}, static_cast<float>(6 * i), memory));
  }
  MemoryFileSystem fs;
  write_safetensors(fs, "/model.safetensors", stored);
  const HfWeights weights(fs, "/", {&spec, 1});
  CHECK(weights.bytes() == 24 * 4);
  for (int64_t begin = 0; begin < 24; ++begin) {
    Tensor rest = Tensor::empty({24 - begin}, DType::kF32, cpu.stream);
    weights.read(0, begin, rest);
    for (int64_t i = begin; i < 24; ++i)
      CHECK(rest.data<float>()[i - begin] == static_cast<float>(i));
  }
  // A rank may have the second row of both matrices of each expert.
  ParamSpec part = spec;
  part.global = spec.shape;
  part.shape = {2, 2, 3};
  part.cut.axes = {{{0, 2}}, {{1, 2}, {3, 4}}, {{0, 3}}};
  Tensor own = Tensor::empty({12}, DType::kF32, cpu.stream);
  HfWeights(fs, "/", {&part, 1}).read(0, 0, own);
  CHECK(std::vector<float>(own.data<float>(), own.data<float>() + 12) ==
        std::vector<float>{3, 4, 5, 9, 10, 11, 15, 16, 17, 21, 22, 23});
  // And from one tensor, as transformers keeps it in memory.
  MemoryFileSystem stacked;
  write_safetensors(stacked, "/model.safetensors", {{counted(spec.name, spec.shape, 0, memory)}});
  Tensor all = Tensor::empty({24}, DType::kF32, cpu.stream);
  HfWeights(stacked, "/", {&spec, 1}).read(0, 0, all);
  CHECK(all.data<float>()[23] == 23);

  const auto list = export_list({&spec, 1}, DType::kF32);
  REQUIRE(list.size() == 4);
  CHECK(list[3].tensor.name == spec.pieces[3]);
  CHECK(list[3].tensor.shape == Shape{2, 3});
  CHECK(list[3].begin == 18);
}

TEST_CASE("pieces that lack or that have another shape are refused by name", "[model]") {
  const ParamSpec spec = stacked_spec();
  std::vector<std::vector<float>> memory;
  const auto refusal_of = [&](const Shape& last, size_t count) {
    std::vector<SafetensorsTensor> stored;
    for (size_t i = 0; i < count; ++i) {
      stored.push_back(counted(spec.pieces[i], i == 3 ? last : Shape{2, 3}, 0, memory));
    }
    MemoryFileSystem fs;
    write_safetensors(fs, "/model.safetensors", stored);
    try {
      HfWeights(fs, "/", {&spec, 1});
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal_of({2, 3}, 4).empty());
  CHECK_THAT(refusal_of({2, 3}, 3),
             Catch::Contains("weights without model.mlp.experts.1.up.weight"));
  CHECK_THAT(refusal_of({3, 2}, 4),
             Catch::Contains("model.mlp.experts.1.up.weight has shape [3, 2]"));
}

namespace {

// Three projections of two heads of two rows each, that a folder has as one tensor.
std::vector<ParamSpec> joined_specs(bool by_head, int64_t width) {
  std::vector<ParamSpec> specs;
  for (int64_t part = 0; part < 3; ++part) {
    ParamSpec spec{.name = fmt::format("model.part{}", part), .shape = {4, width}};
    if (width == 1) spec.shape = {4};
    spec.stored = StoredRows{.name = "model.all",
                             .rows = 12,
                             .first = part * (by_head ? 2 : 4),
                             .block = by_head ? 2 : 4,
                             .stride = by_head ? 6 : 12};
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace

TEST_CASE("parameters that a folder joins are read from their rows, and go back to them",
          "[model]") {
  testing::CpuStream cpu;
  for (const bool by_head : {false, true}) {
    for (const int64_t width : {1, 3}) {
      CAPTURE(by_head, width);
      const std::vector<ParamSpec> specs = joined_specs(by_head, width);
      std::vector<float> all(to_size(12 * width));
      std::iota(all.begin(), all.end(), 0.0F);
      const auto list = export_list(specs, DType::kF32);
      REQUIRE(list.size() == 1);
      CHECK(list[0].tensor.shape == (width == 1 ? Shape{12} : Shape{12, 3}));
      REQUIRE(list[0].parts.size() == 3);
      MemoryFileSystem fs;
      SafetensorsTensor stored = list[0].tensor;
      stored.data = std::as_bytes(std::span(all));
      write_safetensors(fs, "/model.safetensors", {{stored}});
      const HfWeights weights(fs, "/", specs);
      CHECK(weights.bytes() == 48 * width);
      std::vector<float> again(all.size(), -1);
      for (size_t part = 0; part < specs.size(); ++part) {
        std::vector<float> own(to_size(4 * width));
        Tensor range = Tensor::borrow(own.data(), {4 * width}, DType::kF32);
        weights.read(part, 0, range);
        const int64_t first =
            width * (by_head ? 2 * narrow<int64_t>(part) : 4 * narrow<int64_t>(part));
        CHECK(own.front() == static_cast<float>(first));
        // Over the border of blocks.
        std::vector<float> some(to_size(2 * width));
        Tensor middle = Tensor::borrow(some.data(), {2 * width}, DType::kF32);
        weights.read(part, width, middle);
        CHECK(std::ranges::equal(some, std::span(own).subspan(to_size(width), to_size(2 * width))));
        place_rows(specs[part], own, again);
      }
      CHECK(again == all);
    }
  }
  CHECK_THAT(refusal({table("wte.weight")}, joined_specs(true, 3)), Catch::Contains("model.all"));
}

TEST_CASE("the layers that config.json wants are compared with the weights first", "[model]") {
  const auto folder_with = [](int layers, const std::string& prefix) {
    auto fs = std::make_unique<MemoryFileSystem>();
    std::vector<SafetensorsTensor> stored;
    for (int layer = 0; layer < layers; ++layer) {
      stored.push_back({fmt::format("{}h.{}.ln_1.bias", prefix, layer), DType::kBF16, Shape{3},
                        std::as_bytes(std::span(kBias))});
    }
    write_safetensors(*fs, "/model.safetensors", stored);
    return fs;
  };
  const auto config = [](MemoryFileSystem& fs, int64_t layers) {
    fs.write_text_atomically("/config.json",
                             fmt::format(R"({{"model_type": "gpt2", "n_layer": {}}})", layers));
  };
  for (const std::string prefix : {"", "transformer."}) {
    const auto fs = folder_with(2, prefix);
    config(*fs, 2);
    CHECK(dimensions(read_hf_model(*fs, "/")).layers == 2);
    for (const int64_t wrong : {1, 3, 4096}) {
      config(*fs, wrong);
      CHECK_THROWS_WITH(read_hf_model(*fs, "/"),
                        Catch::Contains(fmt::format(
                            "\"n_layer\": {}, but the weights beside it have 2 layers", wrong)));
      CHECK_THROWS_AS(read_hf_model(*fs, "/"), DataError);
    }
  }
  const auto names_high = folder_with(0, "");
  names_high->remove("/model.safetensors");
  config(*names_high, 4);
  CHECK(dimensions(read_hf_model(*names_high, "/")).layers == 4);  // no weights: the config alone
}
