// NVML is played by tests/support/fake_nvml, which answers from a text.
#include "launcher/process/devices/gpu_reader.h"

#include <stdlib.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "core/status/error.h"
#include "launcher/process/devices/gpu_messages.h"
#include "launcher/process/devices/gpu_sampler.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

constexpr const char* kTwoGpus =
    "driver 580.82.07\n"
    "gpu GPU-0a1b NVIDIA H200\n"
    "memory 150000000000 149000000000\nutilization 37\ntemperature 54\nslowdown 92\n"
    "clock 1980\npower 351000\necc 0\nthrottle 1\n"
    "gpu GPU-2c3d NVIDIA H200\n"
    "memory 150000000000 50000000000\ntemperature 93\nslowdown 92\necc 3\nthrottle 64\n"
    "process 4711 99000000000\nprocess 4712 18446744073709551615\nno_peer 0\nxid 31\n";

class FakeMachine {
 public:
  explicit FakeMachine(const std::string& text) {
    say(text);
    setenv("DS_FAKE_NVML", file_.c_str(), 1);
  }
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;
  ~FakeMachine() { unsetenv("DS_FAKE_NVML"); }
  // Whole, for a reader that is at work.
  void say(const std::string& text) const {
    std::ofstream(file_ + "~") << text;
    std::filesystem::rename(file_ + "~", file_);
  }

 private:
  const testing::TemporaryDirectory here_;
  const std::string file_ = (here_.path() / "gpus").string();
};

}  // namespace

TEST_CASE("GPUs are as NVML says, and what it does not say has no value", "[launcher]") {
  const FakeMachine machine(kTwoGpus);
  const GpuReport report = GpuReader(DS_FAKE_NVML_FILE).read();
  CHECK(report.driver == "580.82.07");
  REQUIRE(report.gpus.size() == 2);
  const GpuState& well = report.gpus[0];
  CHECK(well.uuid == "GPU-0a1b");
  CHECK(well.name == "NVIDIA H200");
  CHECK(well.problem.empty());
  CHECK(well.figures.memory_total == 150'000'000'000);
  CHECK(well.figures.memory_used == 1'000'000'000);
  CHECK(well.figures.utilization == 37);
  CHECK(well.figures.temperature == 54);
  CHECK(well.figures.sm_clock == 1980);
  CHECK(well.figures.power == 351000);
  CHECK_FALSE(well.figures.last_xid);
  CHECK(well.slowdown_at == 92);
  CHECK(well.ecc_uncorrected == 0);
  CHECK(well.throttled.empty());  // it idles, which is no throttling
  CHECK(well.process_memory == 0);
  CHECK(well.unreachable.empty());
  const GpuState& ill = report.gpus[1];
  CHECK(ill.index == 1);
  CHECK_FALSE(ill.figures.utilization);
  CHECK(ill.ecc_uncorrected == 3);
  CHECK(ill.throttled == "it is too hot");
  CHECK(ill.processes == std::vector<int64_t>{4711, 4712});
  CHECK(ill.process_memory == 99'000'000'000);  // what is not known is not counted
  CHECK(ill.unreachable == std::vector<int>{0});
  CHECK(find_gpu(report, "GPU-2c") == &report.gpus[1]);
  CHECK(find_gpu(report, "0") == &report.gpus[0]);
  CHECK(find_gpu(report, "MIG-2c3d") == nullptr);

  const GpuReport again = from_message(to_message(report));
  CHECK(to_message(again).SerializeAsString() == to_message(report).SerializeAsString());
  CHECK(again.gpus[1].process_memory == ill.process_memory);
  CHECK(again.gpus[0].figures.power == well.figures.power);
  CHECK_FALSE(again.gpus[1].figures.power);
}

TEST_CASE("parts of a GPU have memory and processes of their own, all else is the GPU's",
          "[launcher]") {
  const FakeMachine machine(
      "driver 580.82.07\n"
      "gpu GPU-0a1b NVIDIA H200\n"
      "memory 150000000000 149000000000\nutilization 37\ntemperature 54\nslowdown 92\necc 3\n"
      "part MIG-77aa 18000000000 17000000000\nprocess 4711 900000000\n"
      "part MIG-77bb 35000000000 34000000000\n");
  const GpuReport report = GpuReader(DS_FAKE_NVML_FILE).read();
  REQUIRE(report.gpus.size() == 1);
  CHECK(report.gpus[0].processes.empty());
  REQUIRE(report.gpus[0].parts.size() == 2);
  const GpuState* const one = find_gpu(report, "MIG-77aa");
  REQUIRE(one == report.gpus[0].parts.data());
  CHECK(one->name == "NVIDIA H200 MIG");
  CHECK(one->figures.memory_total == 18'000'000'000);
  CHECK(one->figures.memory_used == 1'000'000'000);
  CHECK_FALSE(one->figures.utilization);
  CHECK(one->figures.temperature == 54);
  CHECK(one->slowdown_at == 92);
  CHECK(one->ecc_uncorrected == 3);
  CHECK(one->processes == std::vector<int64_t>{4711});
  CHECK(one->parts.empty());
  CHECK(find_gpu(report, "MIG-77b") == &report.gpus[0].parts[1]);
  CHECK(find_gpu(report, "MIG-78") == nullptr);
  CHECK(GpuReader(DS_FAKE_NVML_FILE).sample().gpus[0].parts.size() == 2);
  CHECK(GpuReader(DS_OLD_NVML_FILE).read().gpus[0].parts.empty());
  CHECK(to_message(from_message(to_message(report))).SerializeAsString() ==
        to_message(report).SerializeAsString());
}

TEST_CASE("an old driver says less and nothing wrong", "[launcher]") {
  const FakeMachine machine(kTwoGpus);
  const GpuReport report = GpuReader(DS_OLD_NVML_FILE).read();
  REQUIRE(report.gpus.size() == 2);
  CHECK(report.gpus[1].figures.memory_used == 100'000'000'000);
  CHECK_FALSE(report.gpus[1].figures.temperature);
  CHECK_FALSE(report.gpus[1].ecc_uncorrected);
  CHECK_FALSE(report.gpus[1].process_memory);
  CHECK(report.gpus[1].unreachable.empty());
}

TEST_CASE("a GPU that is lost is told, and the others are looked at", "[launcher]") {
  const FakeMachine machine(std::string(kTwoGpus) + "lost\n");
  const GpuReport report = GpuReader(DS_FAKE_NVML_FILE).read();
  CHECK(report.gpus.at(0).problem.empty());
  CHECK(report.gpus.at(0).unreachable.empty());
  CHECK(report.gpus.at(1).problem == "GPU is lost");
  CHECK_FALSE(report.gpus.at(1).figures.memory_total);
}

TEST_CASE("without NVML or its driver the reader says which is missing", "[launcher]") {
  CHECK_THROWS_WITH(GpuReader("libds-no-nvml.so.1"),
                    Catch::StartsWith("NVML could not be opened (libds-no-nvml.so.1"));
  const FakeMachine machine("init 9\n");
  CHECK_THROWS_WITH(GpuReader(DS_FAKE_NVML_FILE), Catch::EndsWith("Driver Not Loaded"));
}

TEST_CASE("the sampler sees an Xid that comes while it watches", "[launcher]") {
  const FakeMachine machine(kTwoGpus);
  GpuSampler sampler({.period = std::chrono::milliseconds(1), .file = DS_FAKE_NVML_FILE});
  const auto see = [&](const auto& wanted) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      const auto newest = sampler.newest();
      if (newest && newest->gpus.size() == 2 && wanted(*newest)) return true;
      std::this_thread::yield();
    }
    return false;
  };
  CHECK(see([](const GpuReport& report) { return !report.gpus[1].figures.last_xid; }));
  machine.say(std::string(kTwoGpus) + "xid 79\n");
  CHECK(see([](const GpuReport& report) { return report.gpus[1].figures.last_xid == 79; }));
  CHECK_FALSE(sampler.newest()->gpus[0].figures.last_xid);
}

TEST_CASE("a sampler without NVML says why, and ends", "[launcher]") {
  GpuSampler sampler({.period = std::chrono::hours(1), .file = "libds-no-nvml.so.1"});
  std::shared_ptr<const GpuReport> newest;
  while (!(newest = sampler.newest())) std::this_thread::yield();
  CHECK_THAT(newest->problem, Catch::StartsWith("NVML could not be opened"));
}

}  // namespace ds
