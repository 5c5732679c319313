// What a pickle of PyTorch says, as inert values: reading makes these and calls nothing. Whatever a
// program would be run for in Python (a class, a function with its arguments) is a TorchRecord with
// its names. Values are handles into a TorchFile (core/torch/torch_file.h) and live as long as it
// does. Containers may be shared (one list at two places is one list), and never contain
// themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/values/dtype.h"

namespace ds {

class TorchValue;
struct TorchList;
struct TorchDict;
struct TorchStorage;
struct TorchTensor;
struct TorchRecord;

// A type of elements as PyTorch names it, without "torch.": "float32", "bool", "float8_e4m3fn".
struct TorchDType {
  std::string_view name{};
  int64_t size = 0;              // bytes of one element
  std::optional<DType> dtype{};  // empty for types that tensors of ours cannot have
};

// The name of a class or of a function that stands by itself, such as what a defaultdict makes.
struct TorchName {
  std::string_view module;
  std::string_view name;
};

struct TorchBytes {
  std::string_view bytes;
};

class TorchValue {
 public:
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,  // an integer beyond 64 bits is a record "builtins.int" of its little-endian bytes
    kFloat,
    kText,  // valid UTF-8
    kBytes,
    kList,
    kTuple,  // also torch.Size
    kSet,    // also frozenset
    kDict,   // also OrderedDict, defaultdict, Counter
    kDType,
    kStorage,
    kTensor,  // also a Parameter
    kRecord,
    kName,
  };

  TorchValue() = default;  // None
  explicit TorchValue(bool value) : kind_(Kind::kBool), held_(value) {}
  explicit TorchValue(int64_t value) : kind_(Kind::kInt), held_(value) {}
  explicit TorchValue(double value) : kind_(Kind::kFloat), held_(value) {}
  static TorchValue text(std::string_view text) { return {Kind::kText, text}; }
  static TorchValue bytes(std::string_view bytes) { return {Kind::kBytes, bytes}; }
  static TorchValue sequence(Kind kind, const TorchList& list) { return {kind, &list}; }
  explicit TorchValue(const TorchDict& dict) : kind_(Kind::kDict), held_(&dict) {}
  explicit TorchValue(const TorchDType& dtype) : kind_(Kind::kDType), held_(&dtype) {}
  explicit TorchValue(const TorchStorage& storage) : kind_(Kind::kStorage), held_(&storage) {}
  explicit TorchValue(const TorchTensor& tensor) : kind_(Kind::kTensor), held_(&tensor) {}
  explicit TorchValue(const TorchRecord& record) : kind_(Kind::kRecord), held_(&record) {}
  explicit TorchValue(const TorchName& name) : kind_(Kind::kName), held_(&name) {}

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::kNone; }

  // Null, or empty, where the value is of another kind.
  std::optional<bool> as_bool() const { return scalar<bool>(); }
  std::optional<int64_t> as_int() const { return scalar<int64_t>(); }
  std::optional<double> as_float() const { return scalar<double>(); }
  std::optional<double> as_number() const;  // an int or a float
  std::optional<std::string_view> as_text() const;
  std::optional<std::string_view> as_bytes() const;
  const TorchList* as_sequence() const { return node<TorchList>(); }  // list, tuple or set
  const TorchDict* as_dict() const { return node<TorchDict>(); }
  const TorchDType* as_dtype() const { return node<TorchDType>(); }
  const TorchStorage* as_storage() const { return node<TorchStorage>(); }
  const TorchTensor* as_tensor() const { return node<TorchTensor>(); }
  const TorchRecord* as_record() const { return node<TorchRecord>(); }
  const TorchName* as_name() const { return node<TorchName>(); }

 private:
  using Held =
      std::variant<std::monostate, bool, int64_t, double, std::string_view, const TorchList*,
                   const TorchDict*, const TorchDType*, const TorchStorage*, const TorchTensor*,
                   const TorchRecord*, const TorchName*>;
  TorchValue(Kind kind, Held held) : kind_(kind), held_(held) {}

  template <class T>
  std::optional<T> scalar() const {
    const T* value = std::get_if<T>(&held_);
    return value == nullptr ? std::nullopt : std::optional<T>(*value);
  }
  template <class T>
  const T* node() const {
    const auto* pointer = std::get_if<const T*>(&held_);
    return pointer == nullptr ? nullptr : *pointer;
  }

  Kind kind_ = Kind::kNone;
  Held held_{};
};

struct TorchList {
  std::vector<TorchValue> items{};
};

// Pairs in the order of the file; no two keys that are texts or integers are equal.
struct TorchDict {
  std::vector<std::pair<TorchValue, TorchValue>> items{};
  TorchValue attributes{};  // a dict or None: what was set on the object, such as "_metadata"
  // The value of a key; null without it. Looks at one item after the other.
  const TorchValue* find(std::string_view key) const;
  const TorchValue* find(int64_t key) const;
};

// Bytes that tensors lie in; those with one id are the same memory (tied parameters).
struct TorchStorage {
  std::string_view id{};  // of the file: "0", "17"
  TorchDType dtype{};     // uint8 where the storage is untyped
  int64_t numel = 0;
  std::string_view location{};  // the device at the time of writing: "cpu", "cuda:0"
};

// A view of a storage. Every element lies inside of it.
struct TorchTensor {
  TorchDType dtype{};
  std::vector<int64_t> shape{};
  std::vector<int64_t> strides{};  // in elements, one for each extent, none negative
  int64_t offset = 0;              // of the first element in the storage, in elements
  const TorchStorage* storage = nullptr;

  int64_t numel() const;  // 1 for no extents; the reader has refused overflow
  int64_t bytes() const { return numel() * dtype.size; }
  bool is_contiguous() const;  // row-major without gaps; strides of extents of 1 do not matter
};

// An object of a class, or a call of a function, that was not made: names, arguments, and the state
// that the object would have been given (a dict of attributes as a rule; None without).
struct TorchRecord {
  std::string_view module{};
  std::string_view name{};
  std::vector<TorchValue> arguments{};
  TorchValue state{};
  // The value of an attribute; null unless the state is a dict that has it.
  const TorchValue* attribute(std::string_view key) const;
  std::string full_name() const;  // "argparse.Namespace"
};

// "a dict", "a tensor": what a message calls a value.
std::string_view kind_text(TorchValue::Kind kind);

}  // namespace ds
