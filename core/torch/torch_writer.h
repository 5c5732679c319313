// Files that torch.load reads, also with weights_only: a pickle of protocol 2 in a zip archive,
// with the elements of each tensor at a multiple of 64 bytes. Equal values give equal bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/files/file.h"
#include "core/values/dtype.h"
#include "core/values/shape.h"

namespace ds {

// A value to be written. A text is UTF-8.
struct TorchItem {
  using List = std::vector<TorchItem>;
  using Dict = std::vector<std::pair<TorchItem, TorchItem>>;
  struct Size {  // torch.Size
    std::vector<int64_t> extents{};
  };
  struct Elements {  // a contiguous tensor on the CPU
    DType dtype = DType::kF32;
    std::vector<int64_t> shape{};
  };
  std::variant<std::monostate, bool, int64_t, double, std::string, List, Dict, Size, Elements>
      value{};

  TorchItem() = default;  // None
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, TorchItem>)
      // NOLINTNEXTLINE(google-explicit-constructor, bugprone-forwarding-reference-overload)
      TorchItem(T&& from)  // values are written as they are
      : value(std::forward<T>(from)) {}
  TorchItem(const char* text) : value(std::string(text)) {}  // NOLINT(google-explicit-constructor)
  TorchItem(int number) : value(int64_t{number}) {}          // NOLINT(google-explicit-constructor)
};

inline std::vector<int64_t> extents_of(const Shape& shape) {
  const std::span<const int64_t> extents = shape.extents();
  return {extents.begin(), extents.end()};
}

// The pickle of a value, whose tensors have the storages "0", "1" ... in the order that they come
// in, and those tensors.
struct TorchPickle {
  std::string bytes;
  std::vector<TorchItem::Elements> tensors;
};
TorchPickle pickled(const TorchItem& root);

// The bytes of a tensor, by its place among those of the pickle; they stay until the next call.
using TensorBytes = std::function<std::span<const std::byte>(size_t index)>;

// A new file, durable. IoError where it is there, or DiskFull: what there is of it stays.
void write_torch_file(FileSystem& files, const std::string& path, const TorchItem& root,
                      const TensorBytes& bytes_of);

}  // namespace ds
