// What env finds out about this machine and about builds that are there, missing or of another
// kind.
#include "launcher/verbs/env.h"

#include <algorithm>
#include <fstream>

#include "config/reader/json_reader.h"
#include "core/tasks/host.h"
#include "launcher/inventory/machine_facts.h"
#include "launcher/process/addresses.h"
#include "launcher/process/machine.h"
#include "proto/build_info.h"
#include "tests/support/catch.h"
#include "tests/support/files/redirected_streams.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

const Fact& fact_in(const FactGroup& group, const std::string& key) {
  const auto found = std::ranges::find(group.facts, key, &Fact::key);
  REQUIRE(found != group.facts.end());
  return *found;
}

std::string env_of(const CommandContext& context, bool json) {
  EnvOptions options;
  options.json = json;
  int code = -1;
  const std::string out = testing::printed_by([&] { code = run_env(options, context); }).out;
  CHECK(code == 0);
  return out;
}

agent::Limit limit_of(int64_t soft, int64_t hard) {
  agent::Limit out;
  out.set_soft(soft);
  out.set_hard(hard);
  return out;
}

}  // namespace

TEST_CASE("what is built in is told with what it is used for", "[launcher]") {
  BuildInfo build = build_info();
  build.has_mpi = false;
  build.cuda_kernels = "";
  CHECK(built_in_text(build) == "CUDA no; MPI no");
  build.cuda_kernels = "sm_80 sm_90 PTX 90";
  build.has_mpi = true;
  CHECK(built_in_text(build) == "CUDA kernels sm_80 sm_90 PTX 90; MPI yes");
  CHECK_FALSE(emulates_cuda(build));
  build.cuda_kernels = "emulated";
  CHECK(built_in_text(build) == "CUDA kernels emulated; MPI yes");
  CHECK(emulates_cuda(build));
}

TEST_CASE("GPUs are told with what becomes of them", "[launcher]") {
  GpuReport report{.driver = "580.82.07"};
  report.gpus = {{.index = 0, .uuid = "GPU-0a", .name = "NVIDIA H200"},
                 {.index = 1, .uuid = "GPU-1b", .name = "NVIDIA H200"},
                 {.index = 2, .problem = "GPU is lost"}};
  report.gpus[0].figures = {.temperature = 41};
  const auto note = [&](const char* key, BuildDevices build, const char* visible) {
    return fact_in(gpu_facts(report, build, visible), key).note;
  };
  CHECK(note("gpu_0", BuildDevices::kGpus, nullptr) == "GPU-0a; 41 degrees C; used by ranks");
  CHECK(note("gpu_1", BuildDevices::kGpus, "0") ==
        "GPU-1b; not used: CUDA_VISIBLE_DEVICES leaves it out");
  CHECK(note("gpu_1", BuildDevices::kGpus, "GPU-1") == "GPU-1b; used by ranks");
  CHECK(note("gpu_2", BuildDevices::kGpus, nullptr) == "not used: GPU is lost");
  CHECK_THAT(note("gpu_1", BuildDevices::kNone, nullptr), Catch::Contains("DS_WITH_CUDA"));
  CHECK_THAT(note("gpu_1", BuildDevices::kEmulated, nullptr), Catch::Contains("emulates"));
  const FactGroup group = gpu_facts(report, BuildDevices::kGpus, nullptr);
  CHECK(std::get<std::string>(fact_in(group, "gpu_0").value) == "NVIDIA H200");
  CHECK(std::get<std::string>(fact_in(group, "nvidia_driver").value) == "580.82.07");
  CHECK(std::get<int64_t>(fact_in(group, "count").value) == 3);
}

TEST_CASE("limits are told with what they can be raised to", "[launcher]") {
  agent::Facts probed;
  *probed.mutable_open_files() = limit_of(1024, 4096);
  *probed.mutable_processes() = limit_of(-1, -1);
  *probed.mutable_locked_memory() = limit_of(int64_t{8} << 20, int64_t{1} << 30);
  probed.set_shared_memory_total(int64_t{64} << 20);
  probed.set_shared_memory_free(int64_t{60} << 20);
  const FactGroup group = limit_facts(probed);
  CHECK(std::get<int64_t>(fact_in(group, "open_files").value) == 1024);
  CHECK(fact_in(group, "open_files").note == "hard limit 4096");
  CHECK(std::get<std::string>(fact_in(group, "processes").value) == "unlimited");
  CHECK(fact_in(group, "processes").note == "hard limit: none");
  CHECK(fact_in(group, "locked_memory").unit == FactUnit::kBytes);
  CHECK(fact_in(group, "locked_memory").note == "hard limit 1.0 GiB");
  CHECK(std::get<int64_t>(fact_in(group, "dev_shm_free").value) == int64_t{60} << 20);
  probed.set_shared_memory_error("No such file or directory");
  const FactGroup without = limit_facts(probed);
  CHECK(std::holds_alternative<std::monostate>(fact_in(without, "dev_shm_total").value));
  CHECK(fact_in(without, "dev_shm_total").note == "/dev/shm: No such file or directory");
}

TEST_CASE("memory that nobody knows of has no value and says why", "[launcher]") {
  agent::Facts probed;
  const Fact unknown = fact_in(memory_facts(probed), "available");
  CHECK(std::holds_alternative<std::monostate>(unknown.value));
  CHECK(unknown.note == "/proc/meminfo does not say");
  probed.set_memory_available(5000);
  probed.set_memory_bound("the machine");
  const Fact known = fact_in(memory_facts(probed), "available");
  CHECK(std::get<int64_t>(known.value) == 5000);
  CHECK(known.note == "of the machine");
}

TEST_CASE("this machine is what the kernel says of it", "[launcher]") {
  CHECK(std::get<std::string>(fact_in(system_facts(), "host").value) == own_host_name());
  CHECK(std::get<int64_t>(fact_in(cpu_facts(), "cores").value) == this_machine(nullptr).cores);
  size_t addresses = 0;
  for (const InterfaceFact& interface : network_facts()) addresses += interface.addresses.size();
  CHECK(addresses == network_addresses().size());
}

TEST_CASE("without the engine env tells what it can, and what is missing", "[launcher]") {
  CommandContext context;
  context.own_program = "/here/dslaunch";
  context.rank_program = "/here/rankd";
  const std::string text = env_of(context, true);
  const Value json = read_config_document(text, "env");
  const Value* const build = json.find("build");
  REQUIRE(build != nullptr);
  CHECK(build->find("dslaunch")->as_string() == "/here/dslaunch");
  CHECK(build->find("rankd")->is_null());
  CHECK(json.find("cpu")->find("used_by_onednn")->is_null());
  CHECK_THAT(env_of(context, false),
             Catch::Contains("unknown") && Catch::Contains("rankd could not be asked"));
}

TEST_CASE("an engine of another build is shown, and said to be one", "[launcher]") {
  const testing::TemporaryDirectory here;
  CommandContext context;
  context.rank_program = (here.path() / "rankd").string();
  std::ofstream(context.rank_program)
      << "#!/bin/sh\necho '{\"build_id\": \"old\", \"libraries\": [{\"name\": \"oneDNN\", "
         "\"version\": \"1.2\", \"purpose\": \"products\"}], \"onednn_isa\": \"AVX2\", "
         "\"vectors\": \"SSE\", \"bf16_products\": false}'\n";
  fs::permissions(context.rank_program, fs::perms::owner_all);
  const std::string text = env_of(context, false);
  CHECK_THAT(text, Catch::Contains(context.rank_program + " is of another build: old"));
  CHECK_THAT(text, Catch::Contains("AVX2") && Catch::Contains("oneDNN"));
}

}  // namespace ds
