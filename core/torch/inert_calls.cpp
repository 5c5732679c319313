#include "core/torch/inert_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/torch/torch_dtypes.h"
#include "core/values/index.h"

namespace ds {
namespace {

using Kind = TorchValue::Kind;

constexpr size_t kMostAxes = 64;

// Whether a text is what Latin-1 was decoded to: UTF-8 of no letter beyond U+00FF. `bytes` gets it.
bool encode_latin1(std::string_view text, std::string& bytes) {
  for (size_t at = 0; at < text.size(); ++at) {
    const auto letter = static_cast<unsigned char>(text[at]);
    if (letter < 0x80) {
      bytes.push_back(text[at]);
      continue;
    }
    if (letter != 0xC2 && letter != 0xC3) return false;
    if (++at == text.size()) return false;
    bytes.push_back(static_cast<char>((letter & 3) << 6 | (text[at] & 0x3F)));
  }
  return true;
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char letter) { return (letter & 0x80) == 0; });
}

}  // namespace

TorchValue InertCalls::name(std::string_view module, std::string_view name, int64_t at) {
  const std::optional<PickleRole> role = allowed_role(module, name);
  if (!role.has_value()) {
    source_.refuse(at, fmt::format("the file asks for {}.{}, which is refused: a pickle is a "
                                   "program, and this is not among the names that weights and "
                                   "checkpoints need; nothing was run",
                                   quoted_of_file(module), quoted_of_file(name)));
  }
  if (*role == PickleRole::kDType) return TorchValue(*find_torch_dtype(name));
  return TorchValue(arena_.name({.module = module, .name = name}));
}

const TorchName& InertCalls::callable_of(const TorchValue& callable, int64_t at) const {
  const TorchName* name = callable.as_name();
  if (name == nullptr) {
    source_.refuse(at, fmt::format("the file calls {}, expected the name of a class",
                                   kind_text(callable.kind())));
  }
  return *name;
}

TorchValue InertCalls::call(const TorchValue& callable, const TorchValue& arguments, int64_t at) {
  const TorchName& name = callable_of(callable, at);
  if (arguments.kind() != Kind::kTuple) {
    source_.refuse(at, fmt::format("the arguments of {}.{} are {}, expected a tuple", name.module,
                                   name.name, kind_text(arguments.kind())));
  }
  const Items& items = arguments.as_sequence()->items;
  const PickleRole role = allowed_role(name.module, name.name).value();
  switch (role) {
    case PickleRole::kOrderedDict:
    case PickleRole::kDefaultDict:
      return dict_of(name, items, at);
    case PickleRole::kSize: {
      TorchList& list = arena_.list({});
      if (items.size() != 1) source_.refuse(at, "torch.Size has to have one argument");
      for (const int64_t extent : extents(items.front(), "an extent of torch.Size", at)) {
        arena_.append(list, {TorchValue(extent)});
      }
      return TorchValue::sequence(Kind::kTuple, list);
    }
    case PickleRole::kSet:
      return set_of(name, items, at);
    case PickleRole::kBytes:
      return bytes_of(items, at);
    case PickleRole::kEncode:
      return encoded(items, at);
    case PickleRole::kRebuildTensor:
    case PickleRole::kRebuildTensor2:
    case PickleRole::kRebuildTensor3:
      return tensor(role, items, at);
    case PickleRole::kRebuildParameter:
      if (items.empty() || items.front().as_tensor() == nullptr) {
        source_.refuse(at, "a parameter has to have a tensor");
      }
      return items.front();
    case PickleRole::kRebuildFromType:
      return with_attributes(items, at);
    case PickleRole::kRecord:
      return TorchValue(arena_.record(name, items));
    case PickleRole::kTensorClass:
    case PickleRole::kDType:
    case PickleRole::kStorageType:
    case PickleRole::kFactory:
      break;
  }
  source_.refuse(
      at, fmt::format("the file calls {}.{}, which may only be named", name.module, name.name));
}

TorchValue InertCalls::with_attributes(const Items& arguments, int64_t at) {
  constexpr size_t kFunction = 0, kClass = 1, kArguments = 2, kCount = 4;
  const auto role_of = [&](size_t place) -> std::optional<PickleRole> {
    const TorchName* name = arguments[place].as_name();
    return name == nullptr ? std::nullopt : allowed_role(name->module, name->name);
  };
  const bool is_tensor = arguments.size() == kCount &&
                         role_of(kClass) == PickleRole::kTensorClass &&
                         (role_of(kFunction) == PickleRole::kRebuildTensor ||
                          role_of(kFunction) == PickleRole::kRebuildTensor2 ||
                          role_of(kFunction) == PickleRole::kRebuildTensor3 ||
                          role_of(kFunction) == PickleRole::kRebuildParameter);
  if (!is_tensor) {
    source_.refuse(at,
                   "torch._tensor._rebuild_from_type_v2 has to be of a function that makes a "
                   "tensor, a class of tensors, arguments and attributes");
  }
  return call(arguments[kFunction], arguments[kArguments], at);
}

TorchValue InertCalls::object(const TorchValue& of_class, const TorchValue& arguments, int64_t at) {
  const TorchName& name = callable_of(of_class, at);
  const PickleRole role = allowed_role(name.module, name.name).value();
  const bool may_be_new = role == PickleRole::kRecord || role == PickleRole::kOrderedDict ||
                          role == PickleRole::kSize || role == PickleRole::kSet;
  if (!may_be_new) {
    source_.refuse(at,
                   fmt::format("the file makes an object of {}.{}, which is no class of objects",
                               name.module, name.name));
  }
  return call(of_class, arguments, at);
}

void InertCalls::build(const TorchValue& object, const TorchValue& state, int64_t at) {
  if (const TorchRecord* record = object.as_record(); record != nullptr) {
    if (!record->state.is_none()) {
      source_.refuse(at, fmt::format("{} has its state twice", record->full_name()));
    }
    ValueArena::set_state(*record, state);
    return;
  }
  const TorchDict* dict = object.as_dict();
  if (dict == nullptr) {
    source_.refuse(
        at, fmt::format("the file sets the state of {}, which has none", kind_text(object.kind())));
  }
  if (state.as_dict() == nullptr || !dict->attributes.is_none()) {
    source_.refuse(at, "the attributes of a dict have to be one dict");
  }
  ValueArena::set_attributes(*dict, state);
}

TorchValue InertCalls::dict_of(const TorchName& name, const Items& arguments, int64_t at) {
  TorchDict& dict = arena_.dict();
  const auto insert = [&](const TorchDict& from) {
    for (const auto& [key, value] : from.items) arena_.insert(dict, key, value);
  };
  if (name.name == "defaultdict") {
    const bool one = arguments.size() == 1 &&
                     (arguments.front().as_name() != nullptr || arguments.front().is_none());
    if (!arguments.empty() && !one) {
      source_.refuse(at, "collections.defaultdict has to have the name of a class alone");
    }
    return TorchValue(dict);
  }
  if (arguments.empty()) return TorchValue(dict);
  if (arguments.size() != 1) {
    source_.refuse(at, fmt::format("{}.{} has {} arguments, expected one at most", name.module,
                                   name.name, arguments.size()));
  }
  if (const TorchDict* from = arguments.front().as_dict(); from != nullptr) {
    insert(*from);
    return TorchValue(dict);
  }
  const TorchList* pairs = arguments.front().as_sequence();
  if (pairs == nullptr) source_.refuse(at, "a dict has to be made of a dict or of pairs");
  for (const TorchValue& item : pairs->items) {
    const TorchList* pair = item.as_sequence();
    if (pair == nullptr || pair->items.size() != 2) {
      source_.refuse(at, "a dict is made of pairs, and one of them is none");
    }
    arena_.insert(dict, pair->items[0], pair->items[1]);
  }
  return TorchValue(dict);
}

TorchValue InertCalls::set_of(const TorchName& name, const Items& arguments, int64_t at) {
  const TorchList* from = arguments.size() == 1 ? arguments.front().as_sequence() : nullptr;
  if (!arguments.empty() && from == nullptr) {
    source_.refuse(at, fmt::format("{}.{} has to be of one list", name.module, name.name));
  }
  return TorchValue::sequence(Kind::kSet, arena_.list(from == nullptr ? Items{} : from->items));
}

TorchValue InertCalls::encoded(const Items& arguments, int64_t at) {
  const auto text = arguments.size() == 2 ? arguments[0].as_text() : std::nullopt;
  const auto encoding = arguments.size() == 2 ? arguments[1].as_text() : std::nullopt;
  if (!text.has_value() || (encoding != "latin1" && encoding != "latin-1")) {
    source_.refuse(at, "_codecs.encode has to be of a text and 'latin1'");
  }
  if (is_ascii(*text)) return TorchValue::bytes(*text);
  std::string bytes;
  arena_.charge(narrow<int64_t>(text->size()));
  if (!encode_latin1(*text, bytes)) source_.refuse(at, "bytes have a letter beyond Latin-1");
  return TorchValue::bytes(arena_.keep(std::move(bytes)));
}

TorchValue InertCalls::bytes_of(const Items& arguments, int64_t at) {
  if (arguments.empty()) return TorchValue::bytes({});
  if (arguments.size() == 1 && arguments.front().kind() == Kind::kBytes) return arguments.front();
  return encoded(arguments, at);
}

std::vector<int64_t> InertCalls::extents(const TorchValue& value, std::string_view what,
                                         int64_t at) {
  const TorchList* list = value.as_sequence();
  if (list == nullptr || value.kind() == Kind::kSet || list->items.size() > kMostAxes) {
    source_.refuse(at, fmt::format("{} is {}, expected one of at most {} in a tuple", what,
                                   kind_text(value.kind()), kMostAxes));
  }
  std::vector<int64_t> numbers;
  numbers.reserve(list->items.size());
  for (const TorchValue& item : list->items) {
    const auto number = item.as_int();
    if (!number.has_value() || *number < 0) {
      source_.refuse(at, fmt::format("{} is {}, expected an integer that is not negative", what,
                                     number.has_value() ? fmt::format("{}", *number)
                                                        : std::string(kind_text(item.kind()))));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

TorchValue InertCalls::tensor(PickleRole role, const Items& arguments, int64_t at) {
  constexpr size_t kOffset = 1, kShape = 2, kStrides = 3, kMarks = 6, kDTypeOfV3 = 6;
  const size_t least = role == PickleRole::kRebuildTensor3 ? kDTypeOfV3 + 1 : kStrides + 1;
  if (arguments.size() < least || arguments.front().as_storage() == nullptr) {
    source_.refuse(at, fmt::format("a tensor has {} arguments, expected a storage and at least {} "
                                   "more",
                                   arguments.size(), least - 1));
  }
  std::vector<int64_t> shape = extents(arguments[kShape], "an extent of a tensor", at);
  std::vector<int64_t> strides = extents(arguments[kStrides], "a stride of a tensor", at);
  arena_.charge(narrow<int64_t>((shape.size() + strides.size()) * sizeof(int64_t)));
  const auto offset = arguments[kOffset].as_int();
  if (!offset.has_value() || *offset < 0 || shape.size() != strides.size()) {
    source_.refuse(at, "a tensor has to have an offset and as many strides as extents");
  }
  TorchTensor& tensor = arena_.tensor();
  tensor.storage = arguments.front().as_storage();
  tensor.dtype = tensor.storage->dtype;
  if (role == PickleRole::kRebuildTensor3) {
    const TorchDType* dtype = arguments[kDTypeOfV3].as_dtype();
    if (dtype == nullptr) source_.refuse(at, "a tensor has no dtype of torch");
    tensor.dtype = *dtype;
  }
  const size_t marks = role == PickleRole::kRebuildTensor3 ? kMarks + 1 : kMarks;
  if (arguments.size() > marks) check_marks(arguments[marks], at);
  tensor.offset = *offset;
  tensor.shape = std::move(shape);
  tensor.strides = std::move(strides);
  check_tensor(tensor, at);
  return TorchValue(tensor);
}

// What torch sets on a tensor that it has made (torch._utils.set_tensor_metadata): marks by which
// its values are others than those that are stored.
void InertCalls::check_marks(const TorchValue& marks, int64_t at) const {
  if (marks.is_none()) return;
  const TorchDict* const dict = marks.as_dict();
  if (dict == nullptr) source_.refuse(at, "the marks of a tensor are no dict");
  for (const auto& [key, value] : dict->items) {
    const auto name = key.as_text();
    const bool is_known = name == "neg" || name == "conj";
    if (is_known && value.as_bool() == false) continue;
    source_.refuse(
        at, fmt::format("a tensor is marked {}, by which its values are others than those that are "
                        "stored; save it after resolve_neg() and resolve_conj()",
                        name ? quoted_of_file(*name) : std::string(kind_text(key.kind()))));
  }
}

// Every element lies inside of the storage, and there are not more of them than a reader may copy:
// strides of 0 make any number out of one element.
void InertCalls::check_tensor(const TorchTensor& tensor, int64_t at) const {
  const int64_t storage_bytes = tensor.storage->numel * tensor.storage->dtype.size;
  const int64_t storage_numel = storage_bytes / tensor.dtype.size;
  const int64_t numel_max = arena_.bytes_max() / tensor.dtype.size;
  if (tensor.offset > storage_numel) {
    source_.refuse(
        at, fmt::format("a tensor begins at element {} of storage {}, which has {}", tensor.offset,
                        quoted_of_file(tensor.storage->id), storage_numel));
  }
  if (std::ranges::find(tensor.shape, 0) != tensor.shape.end()) return;
  int64_t last = tensor.offset;
  int64_t numel = 1;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const int64_t steps = tensor.shape[axis] - 1;
    const int64_t stride = tensor.strides[axis];
    const bool beyond = steps > 0 && stride > (storage_numel - 1 - last) / steps;
    if (beyond || tensor.shape[axis] > numel_max / numel) {
      source_.refuse(at,
                     fmt::format("a tensor of shape [{}] and strides [{}] from element {} does "
                                 "not fit into storage {} of {} elements",
                                 fmt::join(tensor.shape, ", "), fmt::join(tensor.strides, ", "),
                                 tensor.offset, quoted_of_file(tensor.storage->id), storage_numel));
    }
    last += steps * stride;
    numel *= tensor.shape[axis];
  }
  if (last >= storage_numel) {
    source_.refuse(at, fmt::format("a tensor ends at element {} of storage {}, which has {}", last,
                                   quoted_of_file(tensor.storage->id), storage_numel));
  }
}

// ('storage', class, id, location, numel) and, in old streams, a view of another storage.
TorchValue InertCalls::storage(const TorchValue& id, int64_t at) {
  constexpr size_t kClass = 1, kId = 2, kLocation = 3, kNumel = 4, kView = 5;
  const Items* items = id.kind() == Kind::kTuple ? &id.as_sequence()->items : nullptr;
  if (items == nullptr || items->size() <= kNumel || items->size() > kView + 1 ||
      items->front().as_text() != "storage") {
    source_.refuse(at,
                   "a reference out of the pickle is no storage; torch.save of weights writes "
                   "none but those");
  }
  if (items->size() > kView && !(*items)[kView].is_none()) {
    source_.refuse(at, "a storage is a view of another, as PyTorch before 0.4 wrote; save it anew");
  }
  const TorchName* of_class = (*items)[kClass].as_name();
  const TorchDType* dtype = of_class == nullptr ? nullptr : find_storage_dtype(of_class->name);
  const auto key = (*items)[kId].as_text();
  const auto numel = (*items)[kNumel].as_int();
  if (dtype == nullptr ||
      allowed_role(of_class->module, of_class->name) != PickleRole::kStorageType) {
    source_.refuse(at, "a storage has no class of torch");
  }
  if (!key.has_value() || key->empty() || !numel.has_value() || *numel < 0 ||
      *numel > INT64_MAX / dtype->size) {
    source_.refuse(at, "a storage has to have an id and a number of elements");
  }
  if (const auto known = storages_.find(*key); known != storages_.end()) {
    if (known->second->dtype.name != dtype->name || known->second->numel != *numel) {
      source_.refuse(at, fmt::format("storage {} has {} elements of {}, and {} of {} before",
                                     quoted_of_file(*key), *numel, dtype->name,
                                     known->second->numel, known->second->dtype.name));
    }
    return TorchValue(*known->second);
  }
  TorchStorage& storage = arena_.storage();
  storage = {.id = *key,
             .dtype = *dtype,
             .numel = *numel,
             .location = (*items)[kLocation].as_text().value_or("")};
  storages_.emplace(*key, &storage);
  return TorchValue(storage);
}

}  // namespace ds
