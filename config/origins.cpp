#include "config/origins.h"

namespace ds {

Origin origin_near(const Origins& origins, std::string_view path) {
  while (true) {
    if (const auto found = origins.find(path); found != origins.end()) return found->second;
    const size_t dot = path.rfind('.');
    if (dot == std::string_view::npos) return {};
    path = path.substr(0, dot);
  }
}

}  // namespace ds
