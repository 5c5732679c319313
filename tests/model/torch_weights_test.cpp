// Weights of PyTorch's own files in a Hugging Face folder, as those of safetensors.
#include "model/hf/torch_weights.h"

#include <cmath>
#include <cstring>
#include <fstream>

#include "model/hf/weights.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/files/pickle_bytes.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

using namespace testing::pickle;
using testing::CpuStream;
using testing::TemporaryDirectory;

std::string floats(std::initializer_list<float> numbers) {
  std::string bytes(numbers.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), numbers.begin(), bytes.size());
  return bytes;
}

struct Folder {
  void put(const std::string& name, const std::string& content) {
    std::ofstream(directory.path() / name, std::ios::binary) << content;
  }
  std::string path() const { return directory.path().string(); }
  std::string refusal() {
    try {
      TorchWeights::open(files, path());
    } catch (const DataError& error) {
      return error.what();
    }
    return "accepted";
  }
  TemporaryDirectory directory;
  RealFileSystem files;
};

std::string table(const View& view = {{2, 3}, {3, 1}}) {
  return tensor(storage("FloatStorage", "0", 6), view);
}
std::string bias(const std::string& id = "1") {
  return tensor(storage("BFloat16Storage", id, 3), {{3}, {1}});
}
const std::string kTable = floats({1, 2, 3, 4, 5, 6});
const std::string kBias("\x00\x3f\x80\xbf\x00\x41", 6);

ParamSpec spec(const std::string& name, const Shape& shape) {
  return {.name = name, .shape = shape, .dtype = DType::kF32, .init = {}, .unit = 0};
}
const std::vector<ParamSpec> kSpecs = {spec("transformer.wte.weight", {2, 3}),
                                       spec("transformer.ln_f.bias", {3})};

TEST_CASE("a folder's pytorch_model.bin has its weights as safetensors would", "[model]") {
  Folder folder;
  CHECK_FALSE(has_hf_weights(folder.files, folder.path()));
  folder.put("pytorch_model.bin", file(dict({{"wte.weight", table()}, {"ln_f.bias", bias()}}),
                                       {{"0", kTable}, {"1", kBias}})
                                      .text());
  REQUIRE(has_hf_weights(folder.files, folder.path()));
  const HfWeights weights(folder.files, folder.path(), kSpecs);
  CHECK(weights.bytes() == 24 + 6);
  CHECK(weights.stored_name(0) == "wte.weight");
  CpuStream cpu;
  Tensor part = Tensor::empty({3}, DType::kF32, cpu.stream);
  weights.read(0, 2, part);
  CHECK(part.data<float>()[0] == 3);
  CHECK(part.data<float>()[2] == 5);
  weights.read(1, 0, part);
  CHECK(part.data<float>()[0] == 0.5F);
  CHECK(part.data<float>()[1] == -1);
  CHECK(part.data<float>()[2] == 8);
}

TEST_CASE("a training program's checkpoint has its weights under a key of their own", "[model]") {
  Folder folder;
  const std::string weights = dict({{"wte.weight", table()}, {"ln_f.bias", bias()}});
  const auto checkpoint = [&](const std::string& root) {
    folder.put("last.ckpt", file(root, {{"0", kTable}, {"1", kBias}}).text());
    return TorchWeights::open(folder.files, folder.path() + "/last.ckpt");
  };
  for (const char* const key : {"state_dict", "model_state_dict", "model", "module"}) {
    CAPTURE(key);
    const TorchWeights found =
        checkpoint(dict({{"epoch", dict({})}, {key, weights}, {"optimizer", dict({})}}));
    CHECK(found.names() == std::vector<std::string>{"ln_f.bias", "wte.weight"});
    REQUIRE(found.notes().size() == 1);
    CHECK_THAT(found.notes().front(), Catch::Contains(fmt::format("under '{}'", key)) &&
                                          Catch::Contains("'epoch'") &&
                                          Catch::Contains("'optimizer'"));
  }
  CHECK(checkpoint(dict({{"model", weights}})).notes().empty());
  CHECK(checkpoint(weights).notes().empty());
  CHECK_THROWS_WITH(checkpoint(dict({{"model", weights}, {"module", weights}})),
                    Catch::Contains("under model and module"));
  CHECK_THROWS_WITH(checkpoint(dict({{"wte.weight", table()}, {"model", weights}})),
                    Catch::Contains("there are tensors beside 'model'"));
  CHECK_THROWS_WITH(checkpoint(dict({{"model", dict({{"wte.weight", table()}, {"v", "N"}})}})),
                    Catch::Contains("'v' is None") && Catch::Contains("as those under 'model'") &&
                        !Catch::Contains("another program"));
  CHECK_THROWS_WITH(checkpoint(dict({{"net", weights}})), Catch::Contains("'net' is a dict"));
  CHECK_THROWS_WITH(checkpoint(dict({{"model", dict({})}})), Catch::Contains("'model' is a dict"));
  // A Hugging Face folder has its weights at the top, as transformers reads them.
  folder.put("pytorch_model.bin",
             file(dict({{"model", weights}}), {{"0", kTable}, {"1", kBias}}).text());
  CHECK_THAT(folder.refusal(), Catch::Contains("a checkpoint of another program"));
}

TEST_CASE("a weight that lies across in PyTorch's file is read by rows", "[model]") {
  Folder folder;
  folder.put("pytorch_model.bin",
             file(dict({{"wte.weight", table({{2, 3}, {1, 2}})}, {"ln_f.bias", bias()}}),
                  {{"0", kTable}, {"1", kBias}})
                 .text());
  const HfWeights weights(folder.files, folder.path(), kSpecs);
  CpuStream cpu;
  Tensor part = Tensor::empty({5}, DType::kF32, cpu.stream);
  weights.read(0, 1, part);
  CHECK(std::vector<float>(part.data<float>(), part.data<float>() + 5) ==
        std::vector<float>{3, 5, 2, 4, 6});
}

TEST_CASE("doubles of PyTorch's files are read as fp32, from any place on", "[model]") {
  const auto doubles = [](std::initializer_list<double> numbers) {
    std::string bytes(numbers.size() * sizeof(double), '\0');
    std::memcpy(bytes.data(), numbers.begin(), bytes.size());
    return bytes;
  };
  Folder folder;
  folder.put("pytorch_model.bin",
             file(dict({{"wte.weight", tensor(storage("DoubleStorage", "0", 6), {{2, 3}, {3, 1}})},
                        {"ln_f.bias", bias()}}),
                  {{"0", doubles({1, 0.1, 1e300, 4, -5, 6})}, {"1", kBias}})
                 .text());
  const HfWeights weights(folder.files, folder.path(), kSpecs);
  CpuStream cpu;
  Tensor part = Tensor::empty({4}, DType::kF32, cpu.stream);
  weights.read(0, 1, part);
  CHECK(part.data<float>()[0] == 0.1F);
  CHECK(std::isinf(part.data<float>()[1]));
  CHECK(part.data<float>()[3] == -5);
  const std::vector<std::string> notes = WeightFolder::open(folder.files, folder.path()).notes();
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes.front(), Catch::Contains("read as fp32") && Catch::Contains("wte.weight") &&
                                !Catch::Contains("ln_f"));
}

TEST_CASE("safetensors come before PyTorch's file", "[model]") {
  Folder folder;
  const float seven[] = {7};
  write_safetensors(folder.files, folder.path() + "/model.safetensors",
                    {{{"only.here", DType::kF32, Shape{1}, std::as_bytes(std::span(seven))}}});
  folder.put("pytorch_model.bin", "no zip archive");
  CHECK(WeightFolder::open(folder.files, folder.path()).names() ==
        std::vector<std::string>{"only.here"});
}

TEST_CASE("shards of PyTorch's files are found by their index", "[model]") {
  Folder folder;
  const auto index = [&](const std::string& map) {
    folder.put("pytorch_model.bin.index.json", "{\"weight_map\": {" + map + "}}");
  };
  const std::string both = R"("wte.weight": "a-1.bin", "ln_f.bias": "a-2.bin")";
  folder.put("a-1.bin", file(dict({{"wte.weight", table()}}), {{"0", kTable}}).text());
  folder.put("a-2.bin", file(dict({{"ln_f.bias", bias("0")}}), {{"0", kBias}}).text());
  index(both);
  CHECK(TorchWeights::open(folder.files, folder.path()).names() ==
        std::vector<std::string>{"ln_f.bias", "wte.weight"});
  index(both + R"(, "wpe.weight": "a-1.bin")");
  CHECK_THAT(folder.refusal(),
             Catch::Contains("'wpe.weight' should be in a-1.bin, which does not have it"));
  index(R"("wte.weight": "../a-1.bin")");
  CHECK_THAT(folder.refusal(), Catch::Contains("plain file name"));
  folder.put("a-2.bin", file(dict({{"wte.weight", table()}}), {{"0", kTable}}).text());
  index(both);
  CHECK_THAT(folder.refusal(), Catch::Contains("'ln_f.bias'") ||
                                   Catch::Contains("'wte.weight' is in another shard, too"));
}

TEST_CASE("what is no dict of tensors is no file of weights", "[model]") {
  Folder folder;
  const auto told = [&](const std::string& value) {
    folder.put("pytorch_model.bin", file(value, {{"0", kTable}}).text());
    return folder.refusal();
  };
  CHECK(told(dict({{"w", table()}})) == "accepted");
  CHECK_THAT(told("]"), Catch::Contains("pytorch_model.bin: a list, expected a dict of tensors"));
  CHECK_THAT(told(dict({{"w", table()}, {"epoch", "K\x01"}})),
             Catch::Contains("'epoch' is an integer, expected a tensor"));
  CHECK_THAT(told("}K\x01" + table() + "s"),
             Catch::Contains("a key is an integer, expected the name of a tensor"));
  const View deep{{1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}};
  CHECK_THAT(told(dict({{"w", table(deep)}})), Catch::Contains("'w' has 7 extents"));
  CHECK_THAT(told(global("posix", "system") + text("true") + "\x85R"),
             Catch::Contains("'posix'.'system', which is refused"));
  folder.put("pytorch_model.bin", file(dict({{"w", table()}}), {{"0", kTable}}).text());
  const TorchWeights weights = TorchWeights::open(folder.files, folder.path());
  CHECK(weights.info("w").dtype_name == "F32");
  CHECK_THROWS_AS(weights.info("v"), DataError);
  CHECK_THROWS_AS(TorchWeights::open(folder.files, folder.path() + "/none"), InputMissing);
}

}  // namespace
}  // namespace ds
