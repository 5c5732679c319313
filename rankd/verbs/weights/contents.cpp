#include "rankd/verbs/weights/contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "core/values/count_text.h"
#include "core/values/index.h"

namespace ds {
namespace {

using Kind = TorchValue::Kind;

constexpr size_t kLongestText = 200;  // of a value that is shown
constexpr size_t kMostInline = 16;    // numbers of a list that are shown in its line

bool is_container(const TorchValue& value) {
  return value.as_sequence() != nullptr || value.as_dict() != nullptr ||
         value.as_record() != nullptr || value.as_tensor() != nullptr;
}

std::string type_of(const TorchValue& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "none";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kText:
      return "text";
    case Kind::kBytes:
      return "bytes";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kSet:
      return "set";
    case Kind::kDict:
      return "dict";
    case Kind::kDType:
      return "dtype";
    case Kind::kStorage:
      return "storage";
    case Kind::kTensor:
      return "tensor";
    case Kind::kRecord:
      return value.as_record()->full_name();
    case Kind::kName:
      return "class";
  }
  return "";
}

std::string shortened(std::string_view text) {
  if (text.size() <= kLongestText) return std::string(text);
  return fmt::format("{}... ({} bytes)", text.substr(0, kLongestText), text.size());
}

Value value_of(const TorchValue& value) {
  if (const auto flag = value.as_bool()) return Value::boolean(*flag);
  if (const auto number = value.as_int()) return Value::integer(*number);
  if (const auto number = value.as_float()) {
    return std::isfinite(*number) ? Value::number(*number)
                                  : Value::string(fmt::format("{}", *number));
  }
  if (const auto text = value.as_text()) return Value::string(shortened(*text));
  if (const auto bytes = value.as_bytes()) {
    return Value::string(fmt::format("{} bytes", bytes->size()));
  }
  if (value.as_dtype() != nullptr) return Value::string(std::string(value.as_dtype()->name));
  if (const TorchName* name = value.as_name()) {
    return Value::string(fmt::format("{}.{}", name->module, name->name));
  }
  if (const TorchStorage* storage = value.as_storage()) {
    return Value::string(fmt::format("{} elements of {}", storage->numel, storage->dtype.name));
  }
  return Value::null();
}

// A short list of plain values in one line; nothing for another.
std::optional<Value> inline_of(const std::vector<TorchValue>& items) {
  if (items.size() > kMostInline || std::ranges::any_of(items, is_container)) return std::nullopt;
  std::vector<Value> values;
  for (const TorchValue& item : items) values.push_back(value_of(item));
  return Value::list(std::move(values));
}

std::string below(const std::string& name, const TorchValue& key) {
  if (const auto text = key.as_text()) {
    return name.empty() ? shortened(*text) : fmt::format("{}.{}", name, shortened(*text));
  }
  if (const auto number = key.as_int()) return fmt::format("{}[{}]", name, *number);
  return fmt::format("{}[{}]", name, type_of(key));
}

// Goes through all values; the reader has bounded how deep and how long that is.
class Lister {
 public:
  explicit Lister(FileContents& contents) : contents_(contents) {}

  void list(const std::string& name, const TorchValue& value) {
    if (const TorchTensor* tensor = value.as_tensor()) return add(name, *tensor);
    if (const TorchDict* dict = value.as_dict()) return list_dict(name, *dict);
    if (const TorchRecord* record = value.as_record()) return list_record(name, *record);
    if (const TorchList* list = value.as_sequence()) {
      return list_items(name, type_of(value), list->items);
    }
    contents_.items.push_back({name, type_of(value), value_of(value)});
  }

 private:
  void add(const std::string& name, const TorchTensor& tensor) {
    const auto [first, is_first] = first_of_.try_emplace(tensor.storage, name);
    if (is_first) contents_.tensor_bytes += tensor.storage->numel * tensor.storage->dtype.size;
    contents_.tensors.push_back({.name = name,
                                 .dtype = std::string(tensor.dtype.name),
                                 .shape = tensor.shape,
                                 .bytes = tensor.bytes(),
                                 .shares = is_first ? "" : first->second});
  }

  void list_dict(const std::string& name, const TorchDict& dict) {
    if (dict.items.empty()) contents_.items.push_back({name, "dict", Value::object()});
    for (const auto& [key, value] : dict.items) list(below(name, key), value);
    if (const TorchDict* attributes = dict.attributes.as_dict()) {
      for (const auto& [key, value] : attributes->items) {
        if (is_container(value)) continue;  // versions of modules, which say nothing
        list(below(name, key), value);
      }
    }
  }

  void list_items(const std::string& name, const std::string& type,
                  const std::vector<TorchValue>& items) {
    if (std::optional<Value> plain = inline_of(items)) {
      contents_.items.push_back({name, type, std::move(*plain)});
      return;
    }
    for (size_t at = 0; at < items.size(); ++at) list(fmt::format("{}[{}]", name, at), items[at]);
  }

  void list_record(const std::string& name, const TorchRecord& record) {
    const std::optional<Value> plain = inline_of(record.arguments);
    contents_.items.push_back(
        {name, record.full_name(), plain.has_value() ? *plain : Value::null()});
    if (!plain.has_value()) list_items(name + "()", "arguments", record.arguments);
    if (!record.state.is_none()) list(name, record.state);
  }

  FileContents& contents_;
  std::map<const TorchStorage*, std::string> first_of_;
};

}  // namespace

FileContents contents_of(const TorchFile& file) {
  FileContents contents;
  contents.format = "torch";
  Lister(contents).list("", file.root());
  return contents;
}

FileContents contents_of(const SafetensorsFile& file) {
  FileContents contents;
  contents.format = "safetensors";
  for (const std::string& name : file.names()) {
    const SafetensorsInfo& info = file.info(name);
    const auto extents = info.shape.extents();
    contents.tensors.push_back({.name = name,
                                .dtype = info.dtype_name,
                                .shape = {extents.begin(), extents.end()},
                                .bytes = info.bytes});
    contents.tensor_bytes += info.bytes;
  }
  for (const auto& [key, value] : file.metadata()) {
    contents.items.push_back({"__metadata__." + key, "text", Value::string(shortened(value))});
  }
  return contents;
}

std::string contents_text(const FileContents& contents) {
  size_t name_width = 0;
  size_t dtype_width = 0;
  for (const auto& tensor : contents.tensors) {
    name_width = std::max(name_width, tensor.name.size());
    dtype_width = std::max(dtype_width, tensor.dtype.size());
  }
  std::string text = fmt::format("{}: {} tensors, {}\n", contents.format, contents.tensors.size(),
                                 size_text(contents.tensor_bytes));
  for (const auto& tensor : contents.tensors) {
    text += fmt::format("{:{}}  {:{}}  [{}]  {}{}\n", tensor.name, name_width, tensor.dtype,
                        dtype_width, fmt::join(tensor.shape, ", "), size_text(tensor.bytes),
                        tensor.shares.empty() ? "" : "  in the memory of " + tensor.shares);
  }
  for (const auto& item : contents.items) {
    text += fmt::format("{}  {}  {}\n", item.name, item.type, to_compact_json(item.value));
  }
  return text;
}

Value contents_json(const FileContents& contents) {
  std::vector<Value> tensors;
  for (const auto& tensor : contents.tensors) {
    std::vector<Value> shape;
    for (const int64_t extent : tensor.shape) shape.push_back(Value::integer(extent));
    Value item = Value::object();
    item.set("name", Value::string(tensor.name));
    item.set("dtype", Value::string(tensor.dtype));
    item.set("shape", Value::list(std::move(shape)));
    item.set("bytes", Value::integer(tensor.bytes));
    item.set("shares", tensor.shares.empty() ? Value::null() : Value::string(tensor.shares));
    tensors.push_back(std::move(item));
  }
  std::vector<Value> items;
  for (const auto& found : contents.items) {
    Value item = Value::object();
    item.set("name", Value::string(found.name));
    item.set("type", Value::string(found.type));
    item.set("value", found.value);
    items.push_back(std::move(item));
  }
  Value out = Value::object();
  out.set("format", Value::string(contents.format));
  out.set("tensor_bytes", Value::integer(contents.tensor_bytes));
  out.set("tensors", Value::list(std::move(tensors)));
  out.set("values", Value::list(std::move(items)));
  return out;
}

}  // namespace ds
