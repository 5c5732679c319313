// The main program of every test program: Catch2's, and the choice of a device where tests run on
// several.
#define CATCH_CONFIG_RUNNER
#define CATCH_CONFIG_NO_POSIX_SIGNALS
#include <catch2/catch.hpp>
#include <iostream>
#include <regex>
#include <string_view>

#include "tests/support/test_device.h"

namespace {

constexpr std::string_view kCuda = DS_CUDA;  // cmake/ds_cuda.cmake

constexpr int kUsage = 64;
constexpr int kSkipped = 77;  // as CTest is told

// The exit code; 0: it is chosen.
int choose(const std::string& name) {
  ds::testing::TestDevice& chosen = ds::testing::test_device();
  const auto refuse = [&](int code, const std::string& why) {
    std::cerr << "--device " << name << ": " << why << "\n";
    return code;
  };
  if (name == "cpu") return 0;
  if (!chosen.is_for_choice) return refuse(kUsage, "these tests run on the CPU alone");
  if (name == "emulated") {
    if (kCuda != "emulated") return refuse(kUsage, "built without DS_WITH_CUDA=EMULATED");
    chosen.device = ds::Device::cuda(0);
    return 0;
  }
  if (!std::regex_match(name, std::regex("cuda:[0-9]{1,3}"))) {
    return refuse(kUsage, "expected cpu, emulated or cuda:N");
  }
  if (kCuda != "runtime") return refuse(kUsage, "built without DS_WITH_CUDA=ON");
  chosen.device = ds::Device::cuda(std::stoi(name.substr(5)));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  std::string device = "cpu";
  session.cli(session.cli() | Catch::clara::Opt(device, "cpu | emulated | cuda:N")["--device"](
                                  "what the tests compute on"));
  if (const int error = session.applyCommandLine(argc, argv); error != 0) return error;
  if (const int code = choose(device); code != 0) return code;
  try {
    if (ds::testing::test_device().probe) ds::testing::test_device().probe();
  } catch (const std::exception& missing) {
    std::cerr << "skipped: " << missing.what() << "\n";
    return kSkipped;
  }
  return session.run();
}
