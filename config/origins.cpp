#include "config/origins.h"

#include "config/catalogue.h"

namespace ds {

Origin origin_near(const Origins& origins, std::string_view path) {
  while (true) {
    if (const auto found = origins.find(path); found != origins.end()) return found->second;
    const size_t dot = path.rfind('.');
    if (dot == std::string_view::npos) return {};
    path = path.substr(0, dot);
  }
}

KeyMessage split_key(std::string_view message) {
  static const std::vector<CatalogueEntry> kEntries = catalogue();
  const size_t end = message.find(": ");
  if (end == std::string_view::npos || find_entry(kEntries, message.substr(0, end)) == nullptr) {
    return {.key = "", .what = std::string(message)};
  }
  return {.key = std::string(message.substr(0, end)), .what = std::string(message.substr(end + 2))};
}

}  // namespace ds
