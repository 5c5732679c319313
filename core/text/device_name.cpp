#include "core/text/device_name.h"

#include <charconv>

#include "core/status/error.h"

namespace ds {

Device device_named(std::string_view name) {
  if (name == "cpu") return Device::cpu();
  if (name == "cuda") return Device::cuda(0);
  constexpr std::string_view kIndexed = "cuda:";
  if (name.starts_with(kIndexed)) {
    const std::string_view digits = name.substr(kIndexed.size());
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() && index >= 0) {
      return Device::cuda(index);
    }
  }
  throw ConfigError(fmt::format("device {}: expected cpu, cuda or cuda:N", name));
}

}  // namespace ds
