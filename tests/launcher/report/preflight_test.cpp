// What is said about hosts that are not fit, and that nothing is said about those that are.
#include "launcher/report/preflight.h"

#include <fmt/format.h>

#include <functional>

#include "tests/support/catch.h"

namespace ds {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

agent::Facts good_facts() {
  agent::Facts facts;
  facts.mutable_open_files()->set_soft(1024);
  facts.mutable_open_files()->set_hard(4096);
  facts.mutable_processes()->set_soft(-1);
  facts.set_shared_memory_total(kGiB);
  facts.set_shared_memory_free(kGiB);
  facts.set_memory_available(8 * kGiB);
  facts.set_memory_bound("the machine");
  facts.set_cores(8);
  facts.set_grpc_cores(8);
  facts.mutable_directory()->set_path("/shared/runs");
  facts.mutable_directory()->set_existing("/shared");
  facts.mutable_directory()->set_free_bytes(100 * kGiB);
  return facts;
}

SurveyedHost good_host(const std::string& name) {
  return {.host = {name, {0, 1}}, .facts = good_facts(), .clock = ClockOffset{1000, 500}};
}

PreflightNeeds needs() {
  return {.world_size = 4,
          .threads = 2,
          .memory_bytes = kGiB,
          .checkpoint_bytes = kGiB,
          .uses_gpus = false,
          .shares_directory = true};
}

SurveyedHost host_with_gpus(const std::string& name) {
  SurveyedHost host = good_host(name);
  for (const int index : {0, 1, 2}) {
    host.facts->add_gpu_names(std::to_string(index));
    agent::Gpu& gpu = *host.facts->mutable_gpu_report()->add_gpus();
    gpu.set_index(index);
    gpu.set_name("NVIDIA H200");
    gpu.set_memory_total(140 * kGiB);
    gpu.set_memory_used(kGiB);
    gpu.set_temperature(40);
    gpu.set_slowdown_at(90);
    gpu.set_ecc_uncorrected(0);
  }
  host.facts->set_nccl("2.28.9");
  return host;
}

PreflightNeeds gpu_needs() {
  PreflightNeeds out = needs();
  out.uses_gpus = true;
  out.gpu_memory_bytes = 80 * kGiB;
  return out;
}

// "check level" of all that is found about one host.
std::string found(const PreflightNeeds& needs, const SurveyedHost& host) {
  std::string out;
  for (const Finding& finding : judge_hosts(needs, {host})) {
    out += fmt::format("{} {}; ", finding.check,
                       finding.level == FindingLevel::kBad ? "bad" : "warning");
    CHECK_FALSE(finding.what.empty());
    CHECK_FALSE(finding.fix.empty());
  }
  return out;
}

}  // namespace

TEST_CASE("a host that has what the job needs has no findings", "[launcher]") {
  CHECK(found(needs(), good_host("a")).empty());
  SurveyedHost unlimited = good_host("a");
  unlimited.facts->mutable_open_files()->set_soft(-1);
  unlimited.clock.reset();
  CHECK(found(needs(), unlimited).empty());
}

TEST_CASE("processes and threads are counted with dslaunch's own where it runs", "[launcher]") {
  const auto with_room = [](SurveyedHost host, int64_t room) {
    agent::TaskLimit& limit = *host.facts->mutable_cgroup_tasks();
    limit.set_name("/job");
    limit.set_file("/sys/fs/cgroup/pids/job/pids.max");
    limit.set_most(5 + room);
    limit.set_used(5);
    return judge_hosts(needs(), {host});
  };
  const SurveyedHost elsewhere = good_host("a");
  SurveyedHost here = good_host("");
  here.clock.reset();
  // Two ranks of two threads, with three for the control connection and gRPC's for eight cores.
  const int64_t ranks = 2 * (2 + 3 + 5 + 8);
  const int64_t own = 2 + 5 + 8 + 4;
  CHECK(with_room(elsewhere, ranks).empty());
  CHECK(with_room(elsewhere, ranks - 1).size() == 1);
  CHECK(with_room(here, ranks).size() == 1);
  CHECK(with_room(here, ranks + own - 1).size() == 1);
  CHECK(with_room(here, ranks + own).empty());
  const Finding finding = with_room(here, 3).front();
  CHECK(finding.what == fmt::format("cgroup /job allows 8 processes and threads (pids.max) and has "
                                    "5; its 2 ranks need {} more, dslaunch's {} among them",
                                    ranks + own, own));
  CHECK_THAT(finding.fix, Catch::Contains(fmt::format(
                              "write {} into /sys/fs/cgroup/pids/job/pids.max", 5 + ranks + own)));
  SurveyedHost user = good_host("a");
  user.facts->mutable_user_tasks()->set_name("1000");
  user.facts->mutable_user_tasks()->set_most(20);
  user.facts->mutable_user_tasks()->set_used(10);
  user.facts->mutable_processes()->set_hard(4096);
  const Finding of_user = judge_hosts(needs(), {user}).front();
  CHECK(of_user.what ==
        fmt::format("20 processes and threads of user 1000 (who has 10) are allowed, "
                    "{} at least are needed",
                    10 + ranks));
  CHECK_THAT(of_user.fix, Catch::Contains(fmt::format("`ulimit -u {}`", 10 + ranks)));
  // More cores start more threads, up to 32 of them.
  SurveyedHost large = elsewhere;
  large.facts->set_grpc_cores(128);
  CHECK(with_room(large, ranks + 2 * (32 - 8)).empty());
  CHECK(with_room(large, ranks + 2 * (32 - 8) - 1).size() == 1);
  large.facts->set_grpc_cores(1);
  CHECK(with_room(large, ranks - 2 * (8 - 2)).empty());
  CHECK(with_room(large, ranks - 2 * (8 - 2) - 1).size() == 1);
}

TEST_CASE("every lack is found by itself", "[launcher]") {
  const auto with = [](const std::function<void(SurveyedHost&, agent::Facts&)>& change) {
    SurveyedHost host = good_host("a");
    change(host, *host.facts);
    return found(needs(), host);
  };
  CHECK(with([](auto&, auto& facts) { facts.mutable_open_files()->set_soft(64); }) ==
        "open files bad; ");
  CHECK(with([](auto&, auto& facts) {
          facts.mutable_user_tasks()->set_most(100);
          facts.mutable_user_tasks()->set_used(90);
        }) == "processes bad; ");
  CHECK(with([](auto&, auto& facts) {
          facts.mutable_cgroup_tasks()->set_most(40);
          facts.mutable_cgroup_tasks()->set_used(20);
        }) == "processes bad; ");
  CHECK(with([](auto&, auto& facts) { facts.set_shared_memory_free(4096); }) ==
        "shared memory bad; ");
  CHECK(with([](auto&, auto& facts) { facts.set_shared_memory_error("Permission denied"); }) ==
        "shared memory bad; ");
  CHECK(with([](auto&, auto& facts) { facts.set_memory_available(kGiB); }) == "memory bad; ");
  CHECK(with([](auto&, auto& facts) { facts.set_program_error("No such file"); }) ==
        "program bad; ");
  CHECK(with([](auto&, auto& facts) { facts.mutable_directory()->set_free_bytes(kGiB); }) ==
        "disk bad; ");
  CHECK(with([](auto&, auto& facts) { facts.mutable_directory()->set_error("Read-only"); }) ==
        "disk bad; ");
  CHECK(with([](auto&, auto& facts) { facts.set_witness_error("No such file"); }) ==
        "shared folder bad; ");
  CHECK(with([](auto& host, auto&) { host.own_file_error = "No such file"; }) ==
        "shared folder bad; ");
  CHECK(with([](auto&, auto& facts) { facts.set_listen_error("in use"); }) == "ports bad; ");
  CHECK(with([](auto&, auto& facts) { facts.add_dial_failures()->set_error("refused"); }) ==
        "ports bad; ");
  CHECK(with([](auto&, auto& facts) { facts.set_cores(1); }) == "devices warning; ");
  CHECK(with([](auto&, auto& facts) { facts.add_nvme()->set_path("/local_nvme"); }) ==
        "nvme bad; ");
  CHECK(with([](auto& host, auto&) {
          host.clock = ClockOffset{-5'000'000, 100};
        }) == "clock warning; ");
  CHECK(with([](auto& host, auto&) { host.clock = ClockOffset{-5'000'000, 4'000'000}; }).empty());
  CHECK(with([](auto& host, auto&) {
          host.clock = ClockOffset{90'000'000'000, 100};
        }) == "clock bad; ");
}

TEST_CASE("a host that cannot be asked is said to be so and nothing else", "[launcher]") {
  const SurveyedHost host{
      .host = {"a", {0}}, .problem = "ssh exited with code 255", .advice = "log in"};
  CHECK(found(needs(), host) == "reachable bad; ");
}

TEST_CASE("slots beyond the GPUs of a host are found where slots are GPUs", "[launcher]") {
  PreflightNeeds gpus = needs();
  gpus.uses_gpus = true;
  SurveyedHost host = good_host("a");
  gpus.world_size = 1;
  host.facts->add_gpu_names("0");
  CHECK(found(gpus, host) == "devices bad; ");
  gpus.gpu_sharing = GpuSharing::kAllowed;
  CHECK(found(gpus, host).empty());
  gpus.gpu_sharing = GpuSharing::kRefused;
  host.facts->add_gpu_names("1");
  CHECK(found(gpus, host).empty());
  gpus.slot_gpus["a"] = {{"0"}, {"0"}};  // what a starter left to its slots
  CHECK(found(gpus, host) == "devices bad; ");
}

TEST_CASE("each thing that is wrong with a GPU that a slot is to have is found", "[launcher]") {
  const auto with = [](const std::function<void(agent::Gpu&)>& change, int index = 1) {
    SurveyedHost host = host_with_gpus("a");
    change(*host.facts->mutable_gpu_report()->mutable_gpus(index));
    return found(gpu_needs(), host);
  };
  CHECK(with([](agent::Gpu&) {}).empty());
  CHECK(with([](agent::Gpu& gpu) { gpu.set_problem("GPU is lost"); }) == "gpu bad; ");
  CHECK(with([](agent::Gpu& gpu) { gpu.set_problem("GPU is lost"); }, 2).empty());  // no slot's
  CHECK(with([](agent::Gpu& gpu) { gpu.set_ecc_uncorrected(2); }) == "gpu memory bad; ");
  CHECK(with([](agent::Gpu& gpu) { gpu.set_temperature(90); }) == "gpu heat bad; ");
  CHECK(with([](agent::Gpu& gpu) { gpu.set_throttled("it is too hot"); }) == "gpu heat warning; ");
  CHECK(with([](agent::Gpu& gpu) { gpu.set_memory_used(61 * kGiB); }) == "gpu memory bad; ");
  CHECK(with([](agent::Gpu& gpu) { gpu.add_processes(12); }) == "gpu memory warning; ");
  CHECK(with([](agent::Gpu& gpu) { gpu.add_unreachable(0); }).empty());  // said of the first
  CHECK(with([](agent::Gpu& gpu) { gpu.add_unreachable(1); }, 0) == "gpu links warning; ");
  CHECK(with([](agent::Gpu& gpu) { gpu.add_unreachable(2); }).empty());
}

TEST_CASE("what is wrong with a GPU is said with its name and figures", "[launcher]") {
  SurveyedHost host = host_with_gpus("a");
  agent::Gpu& gpu = *host.facts->mutable_gpu_report()->mutable_gpus(1);
  gpu.set_memory_used(100 * kGiB);
  gpu.add_processes(4711);
  gpu.set_process_memory(99 * kGiB);
  const std::vector<Finding> findings = judge_hosts(gpu_needs(), {host});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what ==
        "GPU 1 (NVIDIA H200) has 40.0 GiB free of 140 GiB, its rank needs 80.0 GiB; processes "
        "4711 have 99.0 GiB there");
}

TEST_CASE("hosts must have the same NCCL where ranks are on GPUs", "[launcher]") {
  SurveyedHost other = host_with_gpus("b");
  CHECK(judge_hosts(gpu_needs(), {host_with_gpus("a"), other}).empty());
  other.facts->set_nccl("2.19.3");
  const auto differs = judge_hosts(gpu_needs(), {host_with_gpus("a"), other});
  REQUIRE(differs.size() == 1);
  CHECK(differs[0].host == "b");
  CHECK(differs[0].level == FindingLevel::kBad);
  CHECK(differs[0].what == "it has NCCL 2.19.3, a has 2.28.9");
  other.facts->clear_nccl();
  CHECK(found(gpu_needs(), other) == "nccl warning; ");
  PreflightNeeds one = gpu_needs();
  one.world_size = 1;
  CHECK(found(one, other).empty());
}

TEST_CASE("nothing known about GPUs is said", "[launcher]") {
  SurveyedHost host = host_with_gpus("a");
  host.facts->mutable_gpu_report()->clear_gpus();
  host.facts->mutable_gpu_report()->set_problem("NVML could not be opened");
  CHECK(found(gpu_needs(), host) == "gpu warning; ");
}

TEST_CASE("an offset is known but for the time under way", "[launcher]") {
  // 100 us there, 10 us of work, 300 us back; the clock there is 5000 us ahead.
  const ClockOffset offset = clock_offset(1000, 6100, 6110, 1410);
  CHECK(offset.offset_us == 4900);
  CHECK(offset.uncertainty_us == 200);
}

TEST_CASE("the report names everything on every host at once", "[launcher]") {
  std::vector<SurveyedHost> hosts{
      good_host("node-1"),
      good_host("node-2"),
      {.host = {"node-3", {0, 1}}, .problem = "ssh exited with code 255"}};
  hosts[1].facts->set_shared_memory_total(kGiB / 1024);
  hosts[1].facts->set_shared_memory_free(kGiB / 1024);
  hosts[1].clock = ClockOffset{7'200'000'000, 100};
  const std::vector<Finding> findings = judge_hosts(needs(), hosts);
  CHECK(any_bad(findings));
  CHECK(
      preflight_text(hosts, findings) ==
      "preflight: 2 of 3 hosts cannot be used, 2 faults found, 1 warning\n"
      "  node-2\n"
      "    warning  clock: its clock is 7200.0 s ahead; times in logs will not match\n"
      "             fix: set it, for instance with `timedatectl set-ntp true` or `chronyc "
      "makestep`\n"
      "    bad      shared memory: /dev/shm has 1.0 MiB free of 1.0 MiB, its 2 ranks need 2.0 MiB\n"
      "             fix: mount -o remount,size=1G /dev/shm; of a container: --shm-size=1g, or an "
      "emptyDir "
      "of medium Memory\n"
      "  node-3\n"
      "    bad      reachable: ssh exited with code 255\n"
      "  ok: node-1");
  const std::string json = preflight_json(hosts, findings);
  CHECK_THAT(json, Catch::StartsWith(
                       R"j({"ok": false, "hosts": [{"host": "node-1", "ok": true, "ranks": 2)j"));
  CHECK_THAT(json, Catch::Contains(R"j("findings": [{"check": "reachable", "level": "bad")j"));
  CHECK_THAT(json, Catch::Contains(R"j("clock_offset_s": 7200)j"));
}

TEST_CASE("all well is one line", "[launcher]") {
  const std::vector<SurveyedHost> hosts{good_host("a"), good_host("b")};
  CHECK(preflight_text(hosts, judge_hosts(needs(), hosts)) == "preflight: 2 hosts can be used");
}

}  // namespace ds
