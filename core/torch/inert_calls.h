// What a pickle asks Python to call or to make, as inert values: tensors, storages, dicts and
// records. Nothing is called. Names come from core/torch/allowed_names.h alone. Confined to one
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "core/torch/allowed_names.h"
#include "core/torch/pickle_source.h"
#include "core/torch/value.h"
#include "core/torch/value_arena.h"

namespace ds {

// Storages by their ids. Their bytes are somewhere else in the file.
using TorchStorages = std::map<std::string_view, const TorchStorage*>;

class InertCalls {
 public:
  // All of these outlive the object. Storages that the pickle refers to are added.
  InertCalls(const PickleSource& source, ValueArena& arena, TorchStorages& storages)
      : source_(source), arena_(arena), storages_(storages) {}

  // Each of these: DataError, with the byte `at`, for what is not allowed or not well formed.
  TorchValue name(std::string_view module, std::string_view name, int64_t at);
  TorchValue call(const TorchValue& callable, const TorchValue& arguments, int64_t at);
  TorchValue object(const TorchValue& of_class, const TorchValue& arguments, int64_t at);
  void build(const TorchValue& object, const TorchValue& state, int64_t at);
  TorchValue storage(const TorchValue& id, int64_t at);  // of a persistent id

 private:
  using Items = std::vector<TorchValue>;

  const TorchName& callable_of(const TorchValue& callable, int64_t at) const;
  TorchValue dict_of(const TorchName& name, const Items& arguments, int64_t at);
  TorchValue set_of(const TorchName& name, const Items& arguments, int64_t at);
  TorchValue encoded(const Items& arguments, int64_t at);
  TorchValue bytes_of(const Items& arguments, int64_t at);
  TorchValue with_attributes(const Items& arguments, int64_t at);
  TorchValue tensor(PickleRole role, const Items& arguments, int64_t at);
  std::vector<int64_t> extents(const TorchValue& value, std::string_view what, int64_t at);
  void check_tensor(const TorchTensor& tensor, int64_t at) const;
  void check_marks(const TorchValue& marks, int64_t at) const;

  const PickleSource& source_;
  ValueArena& arena_;
  TorchStorages& storages_;
};

}  // namespace ds
