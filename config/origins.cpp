#include "config/origins.h"

#include <algorithm>

#include "config/catalogue.h"

namespace ds {

Origin origin_near(const Origins& origins, std::string_view path) {
  while (true) {
    if (const auto found = origins.find(path); found != origins.end()) return found->second;
    const size_t end = path.find_last_of(".[");  // of an element the list that it is in
    if (end == std::string_view::npos) return {};
    path = path.substr(0, end);
  }
}

KeyMessage split_key(std::string_view message) {
  static const std::vector<CatalogueEntry> kEntries = catalogue();
  const size_t end = std::min(message.find(": "), message.size());
  const std::string_view key = message.substr(0, end);
  // An element of a list is no key of its own.
  const std::string_view list = key.ends_with(']') ? key.substr(0, key.rfind('[')) : key;
  const bool known = find_entry(kEntries, key) != nullptr || find_entry(kEntries, list) != nullptr;
  if (end == message.size() || !known) return {.key = "", .what = std::string(message)};
  return {.key = std::string(message.substr(0, end)), .what = std::string(message.substr(end + 2))};
}

}  // namespace ds
