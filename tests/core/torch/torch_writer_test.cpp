// Files for torch.load: what the reader finds in them again. That PyTorch reads them is tried where
// it is at hand (tests/golden/deepspeed/load_universal.py).
#include "core/torch/torch_writer.h"

#include <array>

#include "core/torch/torch_file.h"
#include "core/values/index.h"
#include "core/values/little_endian.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

using Kind = TorchValue::Kind;
using Elements = TorchItem::Elements;

class Written {
 public:
  explicit Written(const TorchItem& root, const TensorBytes& bytes_of = {})
      : text_(text_of(root, bytes_of)),
        file_(TorchFile::of_bytes("/a.pt", std::as_bytes(std::span(text_)))) {}
  const TorchFile& file() const { return file_; }
  const TorchValue& root() const { return file_.root(); }
  const std::string& text() const { return text_; }

 private:
  static std::string text_of(const TorchItem& root, const TensorBytes& bytes_of) {
    MemoryFileSystem files;
    write_torch_file(files, "/a.pt", root, bytes_of);
    return files.read_text("/a.pt", int64_t{1} << 20);
  }
  std::string text_;
  TorchFile file_;
};

}  // namespace

TEST_CASE("plain values are read as they were written", "[core]") {
  const int64_t large = int64_t{1} << 40;
  const Written made(TorchItem::Dict{{"none", {}},
                                     {"true", true},
                                     {"false", false},
                                     {"small", -7},
                                     {"large", -large},
                                     {"limit", int64_t{1} << 31},
                                     {"float", -0.1},
                                     {"text", "\xc3\xa9"},
                                     {"size", TorchItem::Size{{3, 4}}},
                                     {"list", TorchItem::List{1, "two"}},
                                     {"empty", TorchItem::Dict{}},
                                     {5, TorchItem::List{}}});
  const TorchDict& root = *made.root().as_dict();
  REQUIRE(root.items.size() == 12);
  CHECK(root.find("none")->is_none());
  CHECK(root.find("true")->as_bool() == true);
  CHECK(root.find("false")->as_bool() == false);
  CHECK(root.find("small")->as_int() == -7);
  CHECK(root.find("large")->as_int() == -large);
  CHECK(root.find("limit")->as_int() == int64_t{1} << 31);
  CHECK(root.find("float")->as_float() == -0.1);
  CHECK(root.find("text")->as_text() == "\xc3\xa9");
  CHECK(root.find("size")->kind() == Kind::kTuple);
  CHECK(root.find("size")->as_sequence()->items.at(1).as_int() == 4);
  CHECK(root.find("list")->as_sequence()->items.at(1).as_text() == "two");
  CHECK(root.find("empty")->as_dict()->items.empty());
  CHECK(root.find(5)->as_sequence()->items.empty());
}

TEST_CASE("tensors are read with the shapes, types and elements that they were written with",
          "[core]") {
  const std::array<float, 6> values{1, 2, 3, 4, 5, 6};
  const std::array<int64_t, 1> step{9};
  const TensorBytes bytes_of = [&](size_t index) -> std::span<const std::byte> {
    if (index == 0) return std::as_bytes(std::span(values));
    return std::as_bytes(std::span(step));
  };
  const TorchItem::Dict root{{"param", Elements{DType::kF32, {2, 3}}},
                             {"step", Elements{DType::kI64, {}}}};
  const Written made(root, bytes_of);
  const TorchTensor& param = *made.root().as_dict()->find("param")->as_tensor();
  CHECK(param.shape == std::vector<int64_t>{2, 3});
  CHECK(param.strides == std::vector<int64_t>{3, 1});
  CHECK(param.dtype.dtype == DType::kF32);
  CHECK(param.is_contiguous());
  CHECK(made.file().storage_offset(*param.storage) % 64 == 0);
  const auto bytes = made.file().tensor_bytes(param);
  CHECK(std::ranges::equal(bytes, std::as_bytes(std::span(values))));
  const TorchTensor& scalar = *made.root().as_dict()->find("step")->as_tensor();
  CHECK(scalar.shape.empty());
  CHECK(scalar.dtype.dtype == DType::kI64);
  CHECK(little_endian<int64_t>(made.file().tensor_bytes(scalar), 0) == 9);
  CHECK(Written(root, bytes_of).text() == made.text());
}

TEST_CASE("a tensor of other bytes than its shape has is an error of ours", "[core]") {
  const std::array<float, 2> values{1, 2};
  CHECK_THROWS_AS(
      Written(Elements{DType::kF32, {3}}, [&](size_t) { return std::as_bytes(std::span(values)); }),
      InternalError);
}

}  // namespace ds
