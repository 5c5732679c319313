// Files of torch.save: those that PyTorch itself wrote (tests/golden/torch), and hostile ones.
#include "core/torch/torch_file.h"

#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/files/zip_reader.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/pickle_bytes.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

using namespace testing::pickle;
using testing::ZipBytes;
using testing::ZipItem;

std::string golden_path(const std::string& name) {
  return testing::source_directory() + "/tests/golden/torch/" + name;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string refusal(std::span<const std::byte> bytes) {
  try {
    const TorchFile file = TorchFile::of_bytes("/f.pt", bytes);
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal(const std::string& text) { return refusal(std::as_bytes(std::span(text))); }

template <class T>
std::vector<T> numbers_of(const TorchFile& file, const TorchTensor& tensor) {
  std::vector<T> numbers(static_cast<size_t>(tensor.numel()));
  file.copy(tensor, 0, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

const TorchTensor& tensor_at(const TorchFile& file, std::string_view key) {
  const TorchValue* value = file.root().as_dict()->find(key);
  REQUIRE(value != nullptr);
  REQUIRE(value->as_tensor() != nullptr);
  return *value->as_tensor();
}

const std::string kSixFloats = [] {
  const float numbers[] = {0, 1, 2, 3, 4, 5};
  std::string bytes(sizeof(numbers), '\0');
  std::memcpy(bytes.data(), numbers, sizeof(numbers));
  return bytes;
}();

TEST_CASE("tensors of a file of PyTorch are read where they lie", "[core]") {
  const char* name =
      GENERATE("weights.pt", "weights_legacy.pt", "weights_protocol_5.pt", "weights_deflated.pt");
  CAPTURE(name);
  const TorchFile file = TorchFile::open(golden_path(name));
  const TorchTensor& matrix = tensor_at(file, "matrix");
  CHECK(matrix.shape == std::vector<int64_t>{2, 3});
  CHECK(numbers_of<float>(file, matrix) == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(file.tensor_bytes(matrix).size() == 24);
  CHECK(tensor_at(file, "tied").storage == matrix.storage);
  const TorchTensor& across = tensor_at(file, "across");
  CHECK_FALSE(across.is_contiguous());
  CHECK(numbers_of<float>(file, across) == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(numbers_of<float>(file, tensor_at(file, "tail")) == std::vector<float>{4, 5});
  CHECK(numbers_of<float>(file, tensor_at(file, "spread")) == std::vector<float>{7, 7, 7});
  CHECK(numbers_of<int64_t>(file, tensor_at(file, "scalar")) == std::vector<int64_t>{-3});
  CHECK(tensor_at(file, "empty").numel() == 0);
  CHECK(numbers_of<uint16_t>(file, tensor_at(file, "bf16")) ==
        std::vector<uint16_t>{0x3f80, 0xc000});
  CHECK(tensor_at(file, "bf16").dtype.dtype == DType::kBF16);
  CHECK(tensor_at(file, "flags").dtype.name == "bool");
  CHECK_FALSE(tensor_at(file, "flags").dtype.dtype.has_value());
  CHECK(file.root().as_dict()->attributes.as_dict() != nullptr);
  const int64_t offset = file.storage_offset(*matrix.storage);
  const bool in_place = std::string_view(name) != "weights_deflated.pt";
  CHECK((offset >= 0) == in_place);
  if (in_place) {
    const std::string content = content_of(golden_path(name));
    CHECK(content.substr(static_cast<size_t>(offset), kSixFloats.size()) == kSixFloats);
  }
}

TEST_CASE("a part of a tensor with gaps is copied from any element on", "[core]") {
  const TorchFile file = TorchFile::open(golden_path("weights.pt"));
  const TorchTensor& across = tensor_at(file, "across");
  const std::vector<float> all{0, 3, 1, 4, 2, 5};
  for (size_t begin = 0; begin <= all.size(); ++begin) {
    for (size_t end = begin; end <= all.size(); ++end) {
      std::vector<float> part(end - begin);
      file.copy(across, static_cast<int64_t>(begin), std::as_writable_bytes(std::span(part)));
      CHECK(std::equal(part.begin(), part.end(), all.begin() + static_cast<int64_t>(begin)));
    }
  }
  std::vector<float> more(2);
  CHECK_THROWS_AS(file.copy(across, 5, std::as_writable_bytes(std::span(more))), InternalError);
}

TEST_CASE("what a training state holds besides tensors is inert values", "[core]") {
  const char* name = GENERATE("state.pt", "state_protocol_5.pt");
  CAPTURE(name);
  const TorchFile file = TorchFile::open(golden_path(name));
  const TorchDict& root = *file.root().as_dict();
  CHECK(root.find("step")->as_int() == 7);
  CHECK(root.find("rate")->as_float() == 0.25);
  CHECK(root.find("seed")->as_record()->full_name() == "builtins.int");
  CHECK(root.find("raw")->as_bytes()->size() == 256);
  CHECK(static_cast<unsigned char>(root.find("raw")->as_bytes()->at(200)) == 200);
  CHECK(root.find("none")->is_none());
  CHECK(root.find("names")->as_sequence()->items.at(1).as_text() == "b\xc3\xa4");
  CHECK(root.find("members")->kind() == TorchValue::Kind::kSet);
  CHECK(root.find("size")->as_sequence()->items.at(1).as_int() == 3);
  CHECK(root.find("dtype")->as_dtype()->dtype == DType::kBF16);
  CHECK(root.find("device")->as_record()->full_name() == "torch.device");
  CHECK(root.find("arguments")->as_record()->attribute("lr")->as_float() == 0.5);
  CHECK(root.find("defaults")->as_dict()->find("k")->as_int() == 1);
  CHECK(root.find("milestones")->as_dict()->find(10)->as_int() == 1);
  CHECK(root.find("parameter")->as_tensor()->numel() == 2);
  const bool newest = std::string_view(name) == "state_protocol_5.pt";
  CHECK(root.find("array")->as_record()->name == (newest ? "_frombuffer" : "_reconstruct"));
  CHECK(root.find("scalar")->as_record()->name == "scalar");
  CHECK(root.find("float8")->as_tensor()->dtype.name == "float8_e4m3fn");
  CHECK(root.find("state")->as_dict()->find(int64_t{0})->as_dict()->find("exp_avg")->as_tensor() !=
        nullptr);
}

TEST_CASE("a tensor whose values are others than those that are stored is refused", "[core]") {
  const auto marked = [](const std::string& marks) {
    return refusal(
        file(tensor(storage("FloatStorage", "0", 6), {{6}, {1}}, marks), {{"0", kSixFloats}})
            .text());
  };
  const std::string yes = "\x88", no = "\x89", none = "N";
  CHECK(marked(none) == "accepted");
  CHECK(marked(dict({})) == "accepted");
  CHECK(marked(dict({{"neg", no}, {"conj", no}})) == "accepted");
  CHECK_THAT(marked(dict({{"neg", yes}})),
             Catch::Contains("marked 'neg'") && Catch::Contains("resolve_neg()"));
  CHECK_THAT(marked(dict({{"conj", yes}})), Catch::Contains("marked 'conj'"));
  CHECK_THAT(marked(dict({{"scaled", no}})), Catch::Contains("marked 'scaled'"));
  CHECK_THAT(marked(yes), Catch::Contains("the marks of a tensor are no dict"));
}

TEST_CASE("files of PyTorch that would run something are refused, and run nothing", "[core]") {
  const char* name = GENERATE("hostile_system.pt", "hostile_legacy.pt", "hostile_eval.pt",
                              "hostile_getattr.pt", "hostile_plain.pkl");
  CAPTURE(name);
  try {
    TorchFile::open(golden_path(name));
    FAIL("accepted");
  } catch (const DataError& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK_THAT(text, Catch::Contains(name) && Catch::Contains("byte ") &&
                         Catch::Contains("nothing was run"));
    const bool told = text.find("'posix'.'system'") != std::string::npos ||
                      text.find("'builtins'.'eval'") != std::string::npos ||
                      text.find("'__builtin__'.'eval'") != std::string::npos ||
                      text.find("'__builtin__'.'getattr'") != std::string::npos;
    CHECK(told);
  }
}

TEST_CASE("a file of PyTorch that is cut anywhere is refused", "[core]") {
  const char* name = GENERATE("weights.pt", "weights_legacy.pt");
  const std::string content = content_of(golden_path(name));
  const size_t step = content.size() / 97 + 1;
  for (size_t size = 0; size < content.size(); size += step) {
    CAPTURE(name, size);
    CHECK(refusal(content.substr(0, size)) != "accepted");
  }
  CHECK(refusal(content.substr(0, content.size() - 1)) != "accepted");
  CHECK(refusal(content) == "accepted");
}

TEST_CASE("a file that is none of torch.save is refused by what it is", "[core]") {
  CHECK_THAT(refusal(std::string()), Catch::Contains("/f.pt: an empty file"));
  CHECK_THAT(refusal("{\"a\": 1}"), Catch::Contains("neither a zip archive nor a pickle"));
  CHECK_THAT(refusal(whole("K\x01")), Catch::Contains("a pickle, and none of torch.save"));
  CHECK_THAT(refusal(ZipBytes({ZipItem{"word/document.xml", "x"}}).bytes()),
             Catch::Contains("1 entries without a data.pkl"));
  CHECK_THAT(
      refusal(ZipBytes({{"m/data.pkl", whole("N")}, {"m/constants.pkl", whole(")")}}).bytes()),
      Catch::Contains("a program of TorchScript"));
  CHECK_THAT(refusal(ZipBytes({{"m/data.pkl", whole("N")}, {"n/data.pkl", whole("N")}}).bytes()),
             Catch::Contains("both m and 'n' have a data.pkl"));
  CHECK_THAT(refusal(ZipBytes({{"m/data.pkl", whole("N")}, {"m/byteorder", "big"}}).bytes()),
             Catch::Contains("byte order 'big', expected 'little'"));
  CHECK_THAT(refusal(ZipBytes({ZipItem{"m/data.pkl", whole("N") + "x"}}).bytes()),
             Catch::Contains("byte 4 of its entry 'm/data.pkl': bytes follow the pickle"));
}

TEST_CASE("every storage of a file has its bytes", "[core]") {
  const std::string six = tensor(storage("FloatStorage", "0", 6), {{6}, {1}});
  CHECK(refusal(file(six, {{"0", kSixFloats}}).bytes()) == "accepted");
  CHECK_THAT(refusal(file(six).bytes()), Catch::Contains("the entry of storage '0' is missing"));
  CHECK_THAT(refusal(file(six, {{"0", kSixFloats + "x"}}).bytes()),
             Catch::Contains("storage '0' has 25 bytes, expected 24 (6 of float32)"));
  CHECK_THAT(refusal(file(six, {{"0", kSixFloats.substr(4)}}).bytes()),
             Catch::Contains("storage '0' has 20 bytes, expected 24"));
}

TEST_CASE("a pickle whose bytes changed is refused before it is looked at", "[core]") {
  std::string text = file("N").text();
  const size_t at = text.find("\x80\x02N.");
  text[at + 2] = '\x88';
  CHECK_THAT(refusal(text), Catch::Contains("entry 'm/data.pkl' has checksum"));
}

TEST_CASE("a storage whose bytes changed is refused when it is read", "[core]") {
  std::string text =
      file(tensor(storage("FloatStorage", "0", 6), {{6}, {1}}), {{"0", kSixFloats}}).text();
  text[text.find(kSixFloats) + 9] ^= 1;
  const TorchFile opened = TorchFile::of_bytes("/f.pt", std::as_bytes(std::span(text)));
  const TorchTensor& damaged = *opened.root().as_tensor();
  CHECK(opened.storage_offset(*damaged.storage) > 0);
  for (int time = 0; time < 2; ++time) {
    CHECK_THROWS_WITH(opened.tensor_bytes(damaged),
                      Catch::Contains("/f.pt") && Catch::Contains("entry 'm/data/0' has checksum"));
    CHECK_THROWS_WITH(numbers_of<float>(opened, damaged),
                      Catch::Contains("it is damaged, copy it again"));
  }
}

TEST_CASE("checksums that PyTorch was told to leave out are not compared", "[core]") {
  std::string text =
      file(tensor(storage("FloatStorage", "0", 6), {{6}, {1}}), {{"0", kSixFloats}}).text();
  const ZipReader zip("/f.pt", std::as_bytes(std::span(text)));
  for (const ZipEntry& entry : zip.entries()) {
    std::string checksum;
    testing::append_number(checksum, entry.crc32, 4);
    for (size_t at = 0; (at = text.find(checksum, at)) != std::string::npos;)
      text.replace(at, 4, 4, '\0');
  }
  const TorchFile opened = TorchFile::of_bytes("/f.pt", std::as_bytes(std::span(text)));
  CHECK(numbers_of<float>(opened, *opened.root().as_tensor()) ==
        std::vector<float>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("a tensor with attributes is that tensor, and nothing else is made this way", "[core]") {
  const auto from_type = [](const std::string& function, const std::string& of_class,
                            const std::string& arguments) {
    return global("torch._tensor", "_rebuild_from_type_v2") + "(" + function + of_class +
           arguments + dict({{"ds_id", text("0")}}) + "tR";
  };
  const std::string rebuild = global("torch._utils", "_rebuild_tensor_v2");
  const std::string arguments = "(" + storage("FloatStorage", "0", 6) + integer(0) +
                                integers(std::vector<int32_t>{6}) +
                                integers(std::vector<int32_t>{1}) + "\x89}t";
  for (const auto& [module, name] :
       {std::pair("torch", "Tensor"), std::pair("torch.nn.parameter", "Parameter")}) {
    const ZipBytes bytes = file(dict({{"w", from_type(rebuild, global(module, name), arguments)}}),
                                {{"0", kSixFloats}});
    const TorchFile opened = TorchFile::of_bytes("/f.pt", bytes.bytes());
    CHECK(numbers_of<float>(opened, tensor_at(opened, "w")) ==
          std::vector<float>{0, 1, 2, 3, 4, 5});
  }
  const std::string tensor_class = global("torch", "Tensor");
  const std::string itself = global("torch._tensor", "_rebuild_from_type_v2");
  const std::string ordered = global("collections", "OrderedDict");
  for (const std::string& wrong :
       {from_type(ordered, tensor_class, ")"), from_type(rebuild, ordered, arguments),
        from_type(itself, tensor_class, arguments), from_type(tensor_class, tensor_class, ")"),
        from_type(integer(1), tensor_class, ")"), from_type(rebuild, tensor_class, integer(1)),
        tensor_class + ")R", itself + ")R"}) {
    const ZipBytes bytes = file(wrong, {{"0", kSixFloats}});
    CHECK_FALSE(refusal(bytes.bytes()) == "accepted");
  }
}

}  // namespace
}  // namespace ds
