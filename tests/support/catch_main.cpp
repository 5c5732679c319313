// The main program of every test program: Catch2's, and the choice of a device where tests run on
// several.
#define CATCH_CONFIG_RUNNER
#define CATCH_CONFIG_NO_POSIX_SIGNALS
#include <catch2/catch.hpp>
#include <iostream>

#include "tests/support/test_device.h"

namespace {

constexpr bool kIsEmulated =
#if defined(DS_CUDA_EMULATED)
    true;
#else
    false;
#endif

// What is wrong with it; empty: it is chosen.
std::string choose(const std::string& name) {
  ds::testing::TestDevice& chosen = ds::testing::test_device();
  if (name == "cpu") return {};
  if (!chosen.is_for_choice) return "these tests run on the CPU alone";
  if (name == "emulated") {
    if (!kIsEmulated)
      return "this build has no emulated device (build option DS_WITH_CUDA=EMULATED)";
    chosen.device = ds::Device::cuda(0);
    chosen.is_emulated = true;
    return {};
  }
  return "expected cpu or emulated";
}

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  std::string device = "cpu";
  session.cli(session.cli() |
              Catch::clara::Opt(device, "cpu | emulated")["--device"]("what the tests compute on"));
  if (const int error = session.applyCommandLine(argc, argv); error != 0) return error;
  if (const std::string wrong = choose(device); !wrong.empty()) {
    std::cerr << "--device " << device << ": " << wrong << "\n";
    return 64;
  }
  return session.run();
}
