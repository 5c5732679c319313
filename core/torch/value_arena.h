// Owner of the values of one file, and the account of what they take: a pickle of a few bytes can
// ask for many values, and never gets more memory than the limit. Confined to one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/torch/value.h"

namespace ds {

class ValueArena {
 public:
  // `path` is the name of the file in messages.
  ValueArena(std::string path, int64_t bytes_max);
  ValueArena(const ValueArena&) = delete;  // values point into it
  ValueArena& operator=(const ValueArena&) = delete;

  // What values of a file may take: twice its bytes, and what a small file may need in any case.
  static int64_t bytes_max_of(int64_t file_bytes);

  int64_t bytes_max() const { return bytes_max_; }
  // Books memory that is about to be taken; DataError beyond the limit.
  void charge(int64_t bytes);

  TorchList& list(std::vector<TorchValue> items);
  TorchDict& dict() { return added(dicts_); }
  TorchStorage& storage() { return added(storages_); }
  TorchTensor& tensor() { return added(tensors_); }
  TorchRecord& record(TorchName name, std::vector<TorchValue> arguments);
  TorchName& name(TorchName name);
  std::string_view keep(std::string text);

  // Containers are filled after they are made and referred to.
  void append(const TorchList& list, const std::vector<TorchValue>& items);
  void insert(const TorchDict& dict, TorchValue key, TorchValue value);
  static void set_attributes(const TorchDict& dict, TorchValue attributes);
  static void set_state(const TorchRecord& record, TorchValue state);

 private:
  template <class T>
  T& added(std::deque<T>& nodes) {
    charge(static_cast<int64_t>(sizeof(T)) + kCheckBytes);
    return nodes.emplace_back();
  }
  static constexpr int64_t kCheckBytes = 64;  // what the check of all values takes for each

  std::string path_;
  int64_t bytes_max_;
  int64_t charged_ = 0;
  std::deque<TorchList> lists_;
  std::deque<TorchDict> dicts_;
  std::deque<TorchStorage> storages_;
  std::deque<TorchTensor> tensors_;
  std::deque<TorchRecord> records_;
  std::deque<TorchName> names_;
  std::deque<std::string> texts_;
};

}  // namespace ds
