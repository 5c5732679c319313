#include "core/torch/value_arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr int64_t kSmallFile = int64_t{8} << 20;
constexpr int64_t kGrowth = 2;  // a vector that grows may have as many places free

int64_t bytes_of(size_t count, size_t each) {
  return narrow<int64_t>(count) * narrow<int64_t>(each);
}

}  // namespace

ValueArena::ValueArena(std::string path, int64_t bytes_max)
    : path_(std::move(path)), bytes_max_(bytes_max) {}

int64_t ValueArena::bytes_max_of(int64_t file_bytes) {
  return 2 * std::max(file_bytes, kSmallFile);
}

void ValueArena::charge(int64_t bytes) {
  if (bytes > bytes_max_ - charged_) {
    throw DataError(fmt::format(
        "{}: its pickle asks for more than {} bytes of values, twice what the file may need; a "
        "file of weights has its numbers in tensors",
        path_, bytes_max_));
  }
  charged_ += bytes;
}

TorchList& ValueArena::list(std::vector<TorchValue> items) {
  charge(bytes_of(items.size(), sizeof(TorchValue)));
  TorchList& list = added(lists_);
  list.items = std::move(items);
  return list;
}

TorchRecord& ValueArena::record(TorchName name, std::vector<TorchValue> arguments) {
  charge(bytes_of(arguments.size(), sizeof(TorchValue)));
  TorchRecord& record = added(records_);
  record.module = name.module;
  record.name = name.name;
  record.arguments = std::move(arguments);
  return record;
}

TorchName& ValueArena::name(TorchName name) {
  TorchName& kept = added(names_);
  kept = name;
  return kept;
}

std::string_view ValueArena::keep(std::string text) {
  charge(bytes_of(text.size(), 1) + narrow<int64_t>(sizeof(std::string)));
  return texts_.emplace_back(std::move(text));
}

// The arena owns every node, none of them const; values refer to them as const for their readers.
void ValueArena::append(const TorchList& list, const std::vector<TorchValue>& items) {
  charge(kGrowth * bytes_of(items.size(), sizeof(TorchValue)));
  auto& into = const_cast<TorchList&>(list).items;
  into.insert(into.end(), items.begin(), items.end());
}

void ValueArena::insert(const TorchDict& dict, TorchValue key, TorchValue value) {
  charge(kGrowth * bytes_of(2, sizeof(TorchValue)));
  const_cast<TorchDict&>(dict).items.emplace_back(key, value);
}

void ValueArena::set_attributes(const TorchDict& dict, TorchValue attributes) {
  const_cast<TorchDict&>(dict).attributes = attributes;
}

void ValueArena::set_state(const TorchRecord& record, TorchValue state) {
  const_cast<TorchRecord&>(record).state = state;
}

}  // namespace ds
