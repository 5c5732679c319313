// Folders of weights over many generated models: every range of every parameter in every pair of
// stored and wanted types, shards, and what is said of a folder that is not whole.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "core/device/dispatch.h"
#include "core/values/rng.h"
#include "model/hf/weights.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

using testing::CpuStream;

constexpr std::array kFloats{DType::kF32, DType::kBF16, DType::kF16};

// Values that fp16 and bf16 hold exactly, so that every conversion is without loss.
std::vector<std::byte> stored_values(DType dtype, int64_t numel, uint64_t seed) {
  const Rng rng(seed, "stored");
  std::vector<std::byte> bytes(static_cast<size_t>(numel) * size_of(dtype));
  on_float(dtype, [&]<class T>() {
    for (int64_t i = 0; i < numel; ++i) {
      const auto index = static_cast<uint64_t>(i);
      const T value(static_cast<float>(static_cast<int>(rng.bits(index) % 200) - 100));
      std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
    }
  });
  return bytes;
}

float value_at(uint64_t seed, int64_t index) {
  return static_cast<float>(
      static_cast<int>(Rng(seed, "stored").bits(static_cast<uint64_t>(index)) % 200) - 100);
}

ParamSpec spec(const std::string& name, const Shape& shape) {
  return {.name = name, .shape = shape, .dtype = DType::kF32, .init = {}, .unit = 0};
}

TEST_CASE("any range of a parameter is read in any type from any type", "[model]") {
  CpuStream cpu;
  const std::vector<ParamSpec> specs{spec("model.a.weight", {13, 7}), spec("model.b.weight", {50})};
  for (const DType stored : kFloats) {
    MemoryFileSystem fs;
    const auto a = stored_values(stored, 91, 0), b = stored_values(stored, 50, 1);
    write_safetensors(fs, "/model.safetensors",
                      std::vector<SafetensorsTensor>{{"model.a.weight", stored, {13, 7}, a},
                                                     {"model.b.weight", stored, {50}, b}});
    const HfWeights weights(fs, "/", specs);
    CHECK(weights.bytes() == 141 * static_cast<int64_t>(size_of(stored)));
    for (const DType wanted : kFloats) {
      for (size_t parameter = 0; parameter < 2; ++parameter) {
        const int64_t numel = parameter == 0 ? 91 : 50;
        for (const auto& [begin, count] : std::vector<std::pair<int64_t, int64_t>>{
                 {0, numel}, {0, 1}, {numel - 1, 1}, {5, 31}, {numel, 0}, {3, 0}}) {
          Tensor range = Tensor::empty({count}, wanted, cpu.stream);
          weights.read(parameter, begin, range);
          CAPTURE(name_of(stored), name_of(wanted), parameter, begin, count);
          on_float(wanted, [&]<class T>() {
            for (int64_t i = 0; i < count; ++i) {
              REQUIRE(static_cast<float>(range.data<T>()[i]) == value_at(parameter, begin + i));
            }
          });
        }
      }
    }
    Tensor two = Tensor::empty({2}, DType::kF32, cpu.stream);
    CHECK_THROWS_WITH(weights.read(1, 49, two), Catch::Contains("elements [49, 51) of shape [50]"));
    CHECK_THROWS_AS(weights.read(1, -1, two), InternalError);
    CHECK_THROWS_WITH(weights.read(2, 0, two), Catch::Contains("parameter 2 of 2"));
  }
}

TEST_CASE("a parameter longer than one conversion is read whole", "[model]") {
  CpuStream cpu;
  constexpr int64_t kNumel = (int64_t{1} << 18) + 1003;
  MemoryFileSystem fs;
  const auto values = stored_values(DType::kBF16, kNumel, 4);
  write_safetensors(fs, "/model.safetensors",
                    std::vector<SafetensorsTensor>{{"model.w", DType::kBF16, {kNumel}, values}});
  const HfWeights weights(fs, "/", std::vector<ParamSpec>{spec("model.w", {kNumel})});
  Tensor range = Tensor::empty({kNumel - 1}, DType::kF32, cpu.stream);
  weights.read(0, 1, range);
  for (int64_t i = 0; i < range.numel(); i += 37) {
    REQUIRE(range.data<float>()[i] == value_at(4, i + 1));
  }
  CHECK(range.data<float>()[kNumel - 2] == value_at(4, kNumel - 1));
}

std::string refusal(const std::vector<ParamSpec>& specs, const std::vector<std::string>& stored,
                    DType dtype = DType::kF32) {
  MemoryFileSystem fs;
  const auto values = stored_values(DType::kF64 == dtype ? DType::kF32 : dtype, 8, 0);
  std::vector<SafetensorsTensor> tensors;
  for (const std::string& name : stored) tensors.push_back({name, dtype, {4}, values});
  for (SafetensorsTensor& tensor : tensors) {
    tensor.data = tensor.data.first(4 * size_of(tensor.dtype));
  }
  write_safetensors(fs, "/model.safetensors", tensors);
  try {
    const HfWeights weights(fs, "/", specs);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("of many missing or unknown weights five are named and the rest counted", "[model]") {
  std::vector<ParamSpec> specs;
  std::vector<std::string> names;
  for (int i = 0; i < 9; ++i) {
    names.push_back(fmt::format("model.w{}", i));
    specs.push_back(spec(names.back(), {4}));
  }
  CHECK(refusal(specs, names) == "accepted");
  CHECK(refusal(specs, {"model.w0"}) ==
        "/: weights without model.w1, model.w2, model.w3, model.w4, model.w5 and 3 more");
  CHECK(refusal({specs[0]}, names) ==
        "/: weights that its config.json has no place for: model.w1, model.w2, model.w3, model.w4, "
        "model.w5 and 3 more");
  CHECK(refusal({specs[0], specs[1]}, {"model.w0"}) == "/: weights without model.w1");
}

TEST_CASE("weights in a type that no model computes with are refused by that type", "[model]") {
  const std::vector<ParamSpec> one{spec("model.w", {4})};
  CHECK(refusal(one, {"model.w"}, DType::kF64) ==
        "/: model.w is stored as F64; F32, BF16 and F16 can be read");
}

TEST_CASE("norms may have the names of TensorFlow's time", "[model]") {
  const std::set<std::string> stored{"bert.embeddings.LayerNorm.gamma", "encoder.LayerNorm.beta"};
  CHECK(stored_name_of("bert.embeddings.LayerNorm.weight", stored) ==
        "bert.embeddings.LayerNorm.gamma");
  CHECK(stored_name_of("bert.encoder.LayerNorm.bias", stored) == "encoder.LayerNorm.beta");
  CHECK(stored_name_of("bert.embeddings.LayerNorm.bias", stored) == "embeddings.LayerNorm.bias");
}

TEST_CASE("heads of other tasks are left out, and said", "[model]") {
  MemoryFileSystem fs;
  const auto values = stored_values(DType::kF32, 4, 0);
  std::vector<SafetensorsTensor> tensors;
  for (const char* const name : {"bert.w", "bert.pooler.dense.weight", "cls.seq_relationship.bias",
                                 "cls.predictions.decoder.bias", "bert.embeddings.position_ids"}) {
    tensors.push_back({name, DType::kF32, {4}, values});
  }
  write_safetensors(fs, "/model.safetensors", tensors);
  const HfWeights weights(fs, "/", std::vector<ParamSpec>{spec("bert.w", {4})});
  CHECK(weights.left_out() ==
        std::vector<std::string>{"bert.pooler.dense.weight", "cls.seq_relationship.bias"});
  CHECK(refusal({spec("bert.w", {4})}, {"bert.w", "bert.poolers.w"}) ==
        "/: weights that its config.json has no place for: bert.poolers.w");
}

TEST_CASE("stored names may lack the body's prefix, one by one", "[model]") {
  const std::set<std::string> stored{"wte.weight", "transformer.ln_f.bias", "norm.weight"};
  CHECK(stored_name_of("transformer.wte.weight", stored) == "wte.weight");
  CHECK(stored_name_of("transformer.ln_f.bias", stored) == "transformer.ln_f.bias");
  CHECK(stored_name_of("model.norm.weight", stored) == "norm.weight");
  CHECK(stored_name_of("lm_head.weight", stored) == "lm_head.weight");
  // If both are there, the full name wins.
  CHECK(stored_name_of("model.a", {"a", "model.a"}) == "model.a");
}

TEST_CASE("a folder is one of weights when it has the file or the index", "[model]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  CHECK_FALSE(has_hf_weights(fs, "/m"));
  CHECK_THROWS_AS(SafetensorsFolder::open(fs, "/m"), Error);
  fs.write_text_atomically("/m/model.safetensors.index.json", "{}");
  CHECK(has_hf_weights(fs, "/m"));
  fs.remove("/m/model.safetensors.index.json");
  fs.write_text_atomically("/m/model.safetensors", "");
  CHECK(has_hf_weights(fs, "/m"));
  CHECK_THROWS_AS(SafetensorsFolder::open(fs, "/m"), DataError);
}

TEST_CASE("what an export holds is what its writer takes and its reader finds again", "[model]") {
  CpuStream cpu;
  const std::vector<ParamSpec> specs{spec("model.b", {3}), spec("model.a", {2, 5})};
  for (const DType dtype : kFloats) {
    MemoryFileSystem fs;
    std::vector<SafetensorsTensor> list;
    for (const ExportTensor& entry : export_list(specs, dtype)) list.push_back(entry.tensor);
    const auto a = stored_values(dtype, 10, 7), b = stored_values(dtype, 3, 8);
    {
      SafetensorsWriter writer(fs, "/model.safetensors", list);
      CHECK_THROWS_WITH(writer.write("model.c", a),
                        Catch::Contains("'model.c' was not announced to the writer"));
      writer.write("model.b", b);
      CHECK_THROWS_WITH(writer.write("model.b", b), Catch::Contains("'model.b' is written twice"));
      CHECK_THROWS_WITH(
          writer.write("model.a", b),
          Catch::Contains(fmt::format("'model.a' has {} bytes, expected {}", b.size(), a.size())));
      CHECK_THROWS_WITH(writer.finish(), Catch::Contains("'model.a' was never written"));
      CHECK_FALSE(fs.exists("/model.safetensors"));
      writer.write("model.a", a);
      writer.finish();
    }
    const HfWeights weights(fs, "/", specs);
    Tensor range = Tensor::empty({10}, DType::kF32, cpu.stream);
    weights.read(1, 0, range);
    for (int64_t i = 0; i < 10; ++i) CHECK(range.data<float>()[i] == value_at(7, i));
    CHECK(fs.list("/").size() == 1);
  }
  const std::vector<SafetensorsTensor> twice{{"w", DType::kF32, {1}, {}},
                                             {"w", DType::kF32, {1}, {}}};
  MemoryFileSystem fs;
  CHECK_THROWS_WITH(SafetensorsWriter(fs, "/f", twice), Catch::Contains("two tensors named 'w'"));
}

}  // namespace
}  // namespace ds
