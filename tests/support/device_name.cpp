// See device_name.h.
#include "tests/support/device_name.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "core/status/error.h"

namespace ds::testing {

NamedDevice device_named(const std::string& name) {
  constexpr std::string_view kBuild = DS_CUDA;  // cmake/ds_cuda.cmake
  constexpr std::string_view kGpu = "cuda:";
  if (name == "cpu") return {};
  if (name == "emulated") {
    if (kBuild != "emulated") throw ConfigError("built without DS_WITH_CUDA=EMULATED");
    return {.device = Device::cuda(0), .is_emulated = true};
  }
  const std::string digits = name.starts_with(kGpu) ? name.substr(kGpu.size()) : std::string();
  if (digits.empty() || digits.size() > 3 ||
      !std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; })) {
    throw ConfigError("expected cpu, emulated or cuda:N");
  }
  if (kBuild != "runtime") throw ConfigError("built without DS_WITH_CUDA=ON");
  return {.device = Device::cuda(std::stoi(digits))};
}

}  // namespace ds::testing
