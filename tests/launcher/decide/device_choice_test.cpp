#include "launcher/decide/devices/device_choice.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Names = std::vector<std::string>;

std::vector<PresentGpu> present(int count) {
  std::vector<PresentGpu> out;
  for (int index = 0; index < count; ++index) {
    out.push_back({.index = index, .uuid = fmt::format("GPU-{}a{}", index, index)});
  }
  return out;
}

HostGpus host_with(int count, const std::string& name = "") {
  return {.host = name, .all = visible_gpus(present(count), nullptr)};
}

std::vector<RankPlacement> ranks_on(const std::string& host, const std::vector<int64_t>& slots) {
  std::vector<RankPlacement> out;
  for (const int64_t slot : slots) out.push_back({.host = host, .slot = slot});
  return out;
}

Names placed(const HostGpus& host, const std::vector<int64_t>& slots) {
  return place_on_gpus(ranks_on(host.host, slots), {host}, GpuSharing::kRefused).gpus;
}

}  // namespace

TEST_CASE("CUDA_VISIBLE_DEVICES is read as CUDA reads it", "[launcher]") {
  const auto names = [](const char* variable) { return visible_gpus(present(3), variable).names; };
  CHECK(names(nullptr) == Names{"0", "1", "2"});
  CHECK(names("2,0") == Names{"2", "0"});
  CHECK(names(" 2 , 0 ") == Names{"2", "0"});
  CHECK(names("GPU-1a1,GPU-0a") == Names{"GPU-1a1", "GPU-0a"});
  CHECK(names("MIG-5f") == Names{"MIG-5f"});
  CHECK(names("1,-1,2") == Names{"1"});
  CHECK(names("1,3,2") == Names{"1"});
  CHECK(names("1,1,2") == Names{"1"});
  CHECK(names("GPU-7").empty());
  CHECK(names("NoDevFiles").empty());
  CHECK(visible_gpus(present(3), "").why_none == "CUDA_VISIBLE_DEVICES is ''");
  CHECK_THAT(visible_gpus({}, nullptr).why_none, Catch::Contains("/dev/nvidia0"));
  CHECK(visible_gpus({{.index = 0}}, "GPU-7").names == Names{"GPU-7"});  // no UUID to compare with
}

TEST_CASE("ranks are put on GPUs where a build and all hosts can", "[launcher]") {
  using enum DeviceWish;
  using enum BuildDevices;
  const auto chosen = [](DeviceWish wish, BuildDevices build, const std::vector<HostGpus>& hosts) {
    return choose_device(wish, build, hosts).device;
  };
  CHECK(chosen(kAuto, kGpus, {host_with(2)}) == Device::cuda(0));
  CHECK(chosen(kCuda, kGpus, {host_with(2)}) == Device::cuda(0));
  CHECK(chosen(kCpu, kGpus, {host_with(2)}) == Device::cpu());
  CHECK(chosen(kAuto, kGpus, {host_with(0)}) == Device::cpu());
  CHECK(chosen(kAuto, kNone, {host_with(2)}) == Device::cpu());
  CHECK(chosen(kAuto, kEmulated, {host_with(2)}) == Device::cpu());
  CHECK(chosen(kCuda, kEmulated, {host_with(0)}) == Device::cuda(0));
  CHECK(choose_device(kCuda, kEmulated, {}).notes == Names{"ranks compute on the emulated device"});
  CHECK(choose_device(kAuto, kNone, {host_with(0)}).notes.empty());
  CHECK_THAT(choose_device(kAuto, kNone, {host_with(1)}).notes.at(0),
             Catch::Contains("DS_WITH_CUDA"));
  CHECK_THROWS_WITH(chosen(kCuda, kNone, {host_with(2)}), Catch::Contains("DS_WITH_CUDA=ON"));
  CHECK_THROWS_WITH(
      chosen(kCuda, kGpus, {host_with(0)}),
      Catch::StartsWith("this machine has no GPU to use (") && Catch::Contains("--device cpu"));
  CHECK_THROWS_WITH(
      chosen(kAuto, kGpus, {host_with(2, "a"), host_with(0, "b")}),
      Catch::StartsWith("host b has no GPU to use (") && Catch::Contains("leave it out"));
}

TEST_CASE("slots are positions among a host's GPUs, or their numbers", "[launcher]") {
  CHECK(placed(host_with(4), {0, 1}) == Names{"0", "1"});
  CHECK(placed(host_with(4), {0, 2, 3}) == Names{"0", "2", "3"});
  HostGpus four_five{.all = visible_gpus(present(8), "4,5")};
  CHECK(placed(four_five, {0, 1}) == Names{"4", "5"});
  CHECK(placed(four_five, {5, 4}) == Names{"5", "4"});
  CHECK_THROWS_WITH(
      placed(four_five, {0, 1, 2}),
      "this machine is to have a GPU for each of its 3 ranks (slots 0,1,2), and has "
      "2: 4,5; fewer ranks, --share-gpus, which puts several on one, or --device cpu");
  CHECK_THROWS_WITH(placed(host_with(0, "b"), {0}), Catch::StartsWith("host b has no GPU to use"));
  std::vector<RankPlacement> both = ranks_on("a", {1, 0});
  both.push_back({.host = "b", .slot = 3});
  const RankDevices out =
      place_on_gpus(both, {host_with(2, "a"), host_with(4, "b")}, GpuSharing::kRefused);
  CHECK(out.gpus == Names{"1", "0", "3"});
  CHECK(out.notes.empty());
}

TEST_CASE("several ranks have one GPU where that was asked for, and it is said", "[launcher]") {
  const auto shared = [](int gpus, const std::vector<int64_t>& slots) {
    return place_on_gpus(ranks_on("", slots), {host_with(gpus)}, GpuSharing::kAllowed);
  };
  CHECK(shared(2, {0, 1, 2, 3}).gpus == Names{"0", "1", "0", "1"});
  CHECK(shared(2, {0, 1, 2, 3}).notes ==
        Names{"this machine: 4 ranks share 2 GPUs; what they send each other goes through host "
              "memory"});
  CHECK(shared(2, {0, 1}).notes.empty());
}

TEST_CASE("what a starter left to each slot is kept", "[launcher]") {
  HostGpus host = host_with(4);
  host.of_slots = {{"3"}, {"1", "2"}};
  CHECK(placed(host, {0, 1}) == Names{"3", "1"});
  host.of_slots = {{"1", "2"}, {"1", "2"}};  // one list for all of them
  CHECK(placed(host, {0, 1}) == Names{"1", "2"});
  host.of_slots = {{"1"}, {"1"}};
  CHECK_THROWS_WITH(placed(host, {0, 1}), Catch::Contains("and has 1: 1;"));
}

TEST_CASE("GPUs that a starter gave to nobody are told", "[launcher]") {
  HostGpus host = host_with(4, "n1");
  const auto notes = [&](const std::vector<int64_t>& slots) {
    return place_on_gpus(ranks_on("n1", slots), {host}, GpuSharing::kRefused).notes;
  };
  CHECK(notes({0}).empty());  // a hostfile or an option says so
  host.of_slots = {{"0", "1", "2", "3"}};
  REQUIRE(notes({0}).size() == 1);
  CHECK_THAT(notes({0})[0], Catch::StartsWith("host n1: 3 of 4 GPUs stay idle") &&
                                Catch::Contains("--ntasks-per-node=4"));
  host.of_slots = {{"0", "1", "2", "3"}, {"0", "1", "2", "3"}};
  CHECK_THAT(notes({0, 1})[0], Catch::StartsWith("host n1: 2 of 4 GPUs stay idle"));
  host.of_slots = {{"0"}, {"1"}};
  CHECK(notes({0, 1}).empty());
}

TEST_CASE("a rank is shown its GPU alone", "[launcher]") {
  CHECK(gpu_variables("3") == Names{"CUDA_VISIBLE_DEVICES=3", "CUDA_DEVICE_ORDER=PCI_BUS_ID"});
  CHECK(gpu_variables("GPU-1a") == Names{"CUDA_VISIBLE_DEVICES=GPU-1a"});
}

}  // namespace ds
