// The main program of every test program: Catch2's, and the choice of a device where tests run on
// several.
#define CATCH_CONFIG_RUNNER
#define CATCH_CONFIG_NO_POSIX_SIGNALS
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "core/status/error.h"
#include "tests/support/device_name.h"
#include "tests/support/margins/margins.h"
#include "tests/support/test_device.h"

namespace {

constexpr int kUsage = 64;
constexpr int kSkipped = 77;  // as CTest is told

// The exit code; 0: it is chosen.
int choose(const std::string& name) {
  ds::testing::TestDevice& chosen = ds::testing::test_device();
  const auto refuse = [&](const std::string& why) {
    std::cerr << "--device " << name << ": " << why << "\n";
    return kUsage;
  };
  if (name != "cpu" && !chosen.is_for_choice) return refuse("these tests run on the CPU alone");
  try {
    const ds::testing::NamedDevice named = ds::testing::device_named(name);
    chosen.device = named.device;
    chosen.is_emulated = named.is_emulated;
  } catch (const ds::ConfigError& unknown) {
    return refuse(unknown.what());
  }
  return 0;
}

// Prints for each file of tests the error that came nearest to its tolerance, before Catch's own
// summary, when the tests have run on a device.
class MarginsListener final : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    TestEventListenerBase::testCaseStarting(test);
    ds::testing::margins().begin(std::filesystem::path(test.lineInfo.file).filename().string());
  }
  void testRunEnded(const Catch::TestRunStats& run) override {
    if (ds::testing::test_device().device != ds::Device::cpu()) {
      for (const auto& [file, nearest] : ds::testing::margins().nearest()) {
        std::printf("errors of %s: %.2e where %.2e is allowed\n", file.c_str(), nearest.error,
                    nearest.tolerance);
      }
    }
    TestEventListenerBase::testRunEnded(run);
  }
};
CATCH_REGISTER_LISTENER(MarginsListener)

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
