// What `dslaunch inspect` tells of files.
#include <algorithm>

#include "rankd/verbs/weights/contents.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/files/pickle_bytes.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

using namespace testing::pickle;

std::string text_of(const std::string& value,
                    const std::vector<std::pair<std::string, std::string>>& storages = {}) {
  const testing::ZipBytes bytes = file(value, storages);
  return contents_text(contents_of(TorchFile::of_bytes("/f.pt", bytes.bytes())));
}

TEST_CASE("inspect tells tensors with their shapes, and which share memory", "[rankd]") {
  const std::string six = storage("FloatStorage", "0", 6);
  CHECK(text_of(dict({{"a.weight", tensor(six, {{2, 3}, {3, 1}})},
                      {"tied", tensor(six, {{6}, {1}})},
                      {"b", tensor(storage("HalfStorage", "1", 2), {{2}, {1}})}}),
                {{"0", std::string(24, '\0')}, {"1", std::string(4, '\0')}}) ==
        "torch: 3 tensors, 28 B\n"
        "a.weight  float32  [2, 3]  24 B\n"
        "tied      float32  [6]  24 B  in the memory of a.weight\n"
        "b         float16  [2]  4 B\n");
}

TEST_CASE("inspect tells values by their way from the top", "[rankd]") {
  CHECK(text_of(dict({{"step", "K\x07"},
                      {"flags",
                       "](\x88\x89"
                       "e"},
                      {"groups", "](" + dict({{"lr", "N"}}) + "e"},
                      {"empty", "}"},
                      {"byte", "}K\x03K\x04s"},
                      {"dtype", global("torch", "bfloat16")},
                      {"arguments",
                       global("argparse", "Namespace") + ")\x81" + dict({{"seed", "K\x05"}}) + "b"},
                      {"stage", global("deepspeed.runtime.zero.config", "ZeroStageEnum") +
                                    "K\x02\x85R"}})) ==
        "torch: 0 tensors, 0 B\n"
        "step  int  7\n"
        "flags  list  [true,false]\n"
        "groups[0].lr  none  null\n"
        "empty  dict  {}\n"
        "byte[3]  int  4\n"
        "dtype  dtype  \"bfloat16\"\n"
        "arguments  argparse.Namespace  []\n"
        "arguments.seed  int  5\n"
        "stage  deepspeed.runtime.zero.config.ZeroStageEnum  [2]\n");
}

TEST_CASE("inspect tells safetensors, and their metadata", "[rankd]") {
  MemoryFileSystem fs;
  const float numbers[] = {1, 2};
  write_safetensors(fs, "/w.safetensors",
                    {{{"w", DType::kF32, Shape{2, 1}, std::as_bytes(std::span(numbers))}}});
  const FileContents contents = contents_of(SafetensorsFile::open(fs, "/w.safetensors"));
  CHECK(contents_text(contents) ==
        "safetensors: 1 tensors, 8 B\n"
        "w  F32  [2, 1]  8 B\n"
        "__metadata__.format  text  \"pt\"\n");
  CHECK(to_compact_json(contents_json(contents)) ==
        R"({"format":"safetensors","tensor_bytes":8,"tensors":[{"name":"w","dtype":"F32",)"
        R"("shape":[2,1],"bytes":8,"shares":null}],"values":[{"name":"__metadata__.format",)"
        R"("type":"text","value":"pt"}]})");
}

TEST_CASE("inspect tells what PyTorch itself wrote", "[rankd]") {
  const FileContents contents =
      contents_of(TorchFile::open(testing::source_directory() + "/tests/golden/torch/state.pt"));
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(contents.tensors,
                               [&](const auto& tensor) { return tensor.name == name; });
  };
  CHECK(has("parameter"));
  CHECK(has("state[0].exp_avg"));
  CHECK_THAT(contents_text(contents), Catch::Contains("seed  builtins.int  [\"9 bytes\"]") &&
                                          Catch::Contains("raw  bytes  \"256 bytes\""));
}

}  // namespace
}  // namespace ds
