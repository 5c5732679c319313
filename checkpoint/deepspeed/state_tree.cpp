// Merging nested state.
#include "checkpoint/deepspeed/state_tree.h"

#include <algorithm>

#include "core/status/error.h"

namespace ds::deepspeed {

namespace {

StateTree merge_lists(const StateList& a, const StateList& b, const std::string& path) {
  if (a.size() != b.size()) {
    throw DataError(fmt::format("merge: {} is a list of {} entries in one file and {} in another",
                                path, a.size(), b.size()));
  }
  StateList merged;
  for (size_t i = 0; i < a.size(); ++i)
    merged.push_back(merge_states(a[i], b[i], fmt::format("{}[{}]", path, i)));
  return {merged};
}

StateTree merge_maps(const StateMap& a, const StateMap& b, const std::string& path) {
  StateMap merged;
  for (const auto& [key, value] : b) {
    const auto same =
        std::ranges::find_if(a, [&key = key](const auto& entry) { return entry.first == key; });
    merged.emplace_back(
        key, same == a.end() ? value : merge_states(same->second, value, path + "." + key));
  }
  return {merged};
}

}  // namespace

StateTree merge_states(const StateTree& a, const StateTree& b, const std::string& path) {
  if (a.value.index() != b.value.index()) {
    throw DataError(fmt::format("merge: {} has different kinds of value in two files",
                                path.empty() ? "state" : path));
  }
  if (const auto* map = std::get_if<StateMap>(&a.value))
    return merge_maps(*map, std::get<StateMap>(b.value), path);
  if (const auto* list = std::get_if<StateList>(&a.value)) {
    return merge_lists(*list, std::get<StateList>(b.value), path);
  }
  if (const auto* tensor = std::get_if<StateTensor>(&a.value)) {
    StateTensor joined = *tensor;
    const auto& more = std::get<StateTensor>(b.value);
    joined.insert(joined.end(), more.begin(), more.end());
    return {joined};
  }
  return a;
}

}  // namespace ds::deepspeed
