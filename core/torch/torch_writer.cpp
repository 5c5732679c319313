#include "core/torch/torch_writer.h"

#include <fmt/format.h>

#include <bit>
#include <limits>

#include "core/files/zip_writer.h"
#include "core/status/error.h"
#include "core/torch/pickle_opcodes.h"
#include "core/torch/torch_dtypes.h"
#include "core/values/index.h"
#include "core/values/little_endian.h"

namespace ds {
namespace {

constexpr std::string_view kProtocol("\x80\x02", 2);

int64_t numel_of(const TorchItem::Elements& tensor) {
  int64_t numel = 1;
  for (const int64_t extent : tensor.shape) numel *= extent;
  return numel;
}

class Pickler {
 public:
  TorchPickle run(const TorchItem& root) {
    out_ = kProtocol;
    put(root);
    put_opcode(kStop);
    return {std::move(out_), std::move(tensors_)};
  }

 private:
  void put_opcode(Opcode opcode) { out_ += static_cast<char>(opcode); }
  void put(const TorchItem& item) {
    std::visit([&](const auto& value) { write(value); }, item.value);
  }
  void write(std::monostate) { put_opcode(kNone); }
  void write(bool value) { put_opcode(value ? kNewTrue : kNewFalse); }
  void write(int64_t value) {
    if (std::in_range<int32_t>(value)) {
      put_opcode(kBinInt);
      append_little_endian(out_, static_cast<int32_t>(value));
    } else {
      put_opcode(kLong1);
      out_ += static_cast<char>(sizeof(int64_t));
      append_little_endian(out_, value);
    }
  }
  void write(double value) {  // the one number with its highest byte first
    const auto bits = std::bit_cast<uint64_t>(value);
    put_opcode(kBinFloat);
    for (int shift = 56; shift >= 0; shift -= 8) out_ += static_cast<char>(bits >> shift);
  }
  void write(const std::string& text) {
    put_opcode(kBinUnicode);
    append_little_endian(out_, narrow<uint32_t>(text.size()));
    out_ += text;
  }
  void write(const TorchItem::List& list) {
    put_opcode(kEmptyList);
    put_opcode(kMark);
    for (const TorchItem& item : list) put(item);
    put_opcode(kAppends);
  }
  void write(const TorchItem::Dict& dict) {
    put_opcode(kEmptyDict);
    put_opcode(kMark);
    for (const auto& [key, value] : dict) {
      put(key);
      put(value);
    }
    put_opcode(kSetItems);
  }
  void write(const TorchItem::Size& size) {
    name("torch", "Size");
    numbers(size.extents);
    put_opcode(kTuple1);
    put_opcode(kReduce);
  }
  void write(const TorchItem::Elements& tensor) {
    name("torch._utils", "_rebuild_tensor_v2");
    put_opcode(kMark);
    storage(tensor);
    write(int64_t{0});  // of its first element in the storage
    numbers(tensor.shape);
    std::vector<int64_t> strides(tensor.shape.size(), 1);
    for (size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * tensor.shape[i];
    numbers(strides);
    write(false);                        // no gradient
    name("collections", "OrderedDict");  // of hooks, of which there are none
    put_opcode(kEmptyTuple);
    put_opcode(kReduce);
    put_opcode(kTuple);
    put_opcode(kReduce);
    tensors_.push_back(tensor);
  }

  void storage(const TorchItem::Elements& tensor) {
    put_opcode(kMark);
    write(std::string("storage"));
    name("torch", std::string(storage_class(tensor.dtype)));
    write(fmt::format("{}", tensors_.size()));
    write(std::string("cpu"));
    write(numel_of(tensor));
    put_opcode(kTuple);
    put_opcode(kBinPersId);
  }
  void numbers(std::span<const int64_t> numbers) {
    put_opcode(kMark);
    for (const int64_t number : numbers) write(number);
    put_opcode(kTuple);
  }
  void name(std::string_view module, std::string_view name) {
    put_opcode(kGlobal);
    out_ += fmt::format("{}\n{}\n", module, name);
  }

  std::string out_;
  std::vector<TorchItem::Elements> tensors_;
};

std::span<const std::byte> bytes_in(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

TorchPickle pickled(const TorchItem& root) { return Pickler().run(root); }

void write_torch_file(FileSystem& files, const std::string& path, const TorchItem& root,
                      const TensorBytes& bytes_of) {
  const TorchPickle pickle = pickled(root);
  ZipWriter zip(files, path);
  zip.add("archive/data.pkl", bytes_in(pickle.bytes));
  zip.add("archive/byteorder", bytes_in("little"));
  for (size_t i = 0; i < pickle.tensors.size(); ++i) {
    const TorchItem::Elements& tensor = pickle.tensors[i];
    const std::span<const std::byte> bytes = bytes_of(i);
    DS_CHECK(narrow<int64_t>(bytes.size()) ==
                 numel_of(tensor) * static_cast<int64_t>(size_of(tensor.dtype)),
             "{}: tensor {} has {} bytes", path, i, bytes.size());
    zip.add(fmt::format("archive/data/{}", i), bytes);
  }
  zip.add("archive/version", bytes_in("3\n"));
  zip.finish();
}

}  // namespace ds
