// What a host says of itself, and whether it can be dialled.
#include "launcher/agents/host_probe.h"

#include <filesystem>

#include "core/memory/cgroup.h"
#include "core/status/error.h"
#include "launcher/control/peer_dial.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {

namespace fs = std::filesystem;

TEST_CASE("a host tells its limits, its memory and its disk", "[launcher]") {
  const testing::TemporaryDirectory here;
  agent::Probe order;
  order.set_round(7);
  order.set_directory((here.path() / "runs" / "one").string());
  order.add_nvme_paths((here.path() / "nvme").string());
  order.set_program("/nowhere/rankd");
  HostProbe probe(VisibleGpus{.names = {"0", "2", "GPU-3a"}});
  const agent::Facts facts = probe.execute(order, 1);
  CHECK(facts.round() == 7);
  CHECK(facts.asked_us() == 1);
  CHECK(facts.answered_us() > 1);
  CHECK(facts.gpus() == 3);
  CHECK(facts.gpu_names(1) == "2");
  CHECK(facts.has_gpu_report());
  CHECK(facts.cores() > 0);
  CHECK(facts.memory_available() > 0);
  CHECK(facts.open_files().soft() != 0);
  CHECK(facts.directory().existing() == here.path().string());
  CHECK(facts.directory().free_bytes() > 0);
  CHECK(facts.directory().error().empty());
  CHECK(facts.nvme(0).existing() != facts.nvme(0).path());
  CHECK(facts.program_error() == "No such file or directory");
}

TEST_CASE(
    "a host that shares the launcher's folder writes a file beside the launcher's, and removes it",
    "[launcher]") {
  const testing::TemporaryDirectory here;
  agent::Probe order;
  order.set_directory(here.path().string());
  order.set_witness_file((here.path() / "witness").string());
  order.set_witness_text("words");
  order.set_own_file((here.path() / "mine").string());
  HostProbe probe{VisibleGpus()};
  CHECK(probe.execute(order, 0).witness_error() == "No such file or directory");
  CHECK_FALSE(fs::exists(here.path() / "mine"));
  CHECK(write_new_file(order.witness_file(), "other words").empty());
  CHECK(probe.execute(order, 0).witness_error() == "another file is there");
  fs::remove(order.witness_file());
  CHECK(write_new_file(order.witness_file(), "words").empty());
  CHECK(write_new_file(order.witness_file(), "words") == "File exists");
  CHECK(probe.execute(order, 0).witness_error().empty());
  CHECK(fs::exists(here.path() / "mine"));
  order.set_step(agent::Probe::END);
  probe.execute(order, 0);
  CHECK_FALSE(fs::exists(here.path() / "mine"));
}

TEST_CASE("who listens can be dialled, who does not is named", "[launcher]") {
  PeerListener listener = listen_for_dials("127.0.0.1", 0);
  PeerListener gone = listen_for_dials("127.0.0.1", 0);
  gone.listener = Fd();
  const auto dials = dial_peers({listener.endpoint, gone.endpoint, "no endpoint", "name:1"},
                                std::chrono::seconds(2));
  REQUIRE(dials.size() == 4);
  CHECK(dials[0].error.empty());
  CHECK(dials[0].connection.valid());
  CHECK(dials[1].endpoint == gone.endpoint);
  CHECK(dials[1].error == "Connection refused");
  CHECK(dials[2].error == "'no endpoint': expected a literal ADDRESS:PORT");
  CHECK(dials[3].error == "'name:1': expected a literal ADDRESS:PORT");
  CHECK(dial_peers({}, std::chrono::seconds(1)).empty());
  CHECK_THROWS_AS(listen_for_dials("localhost", 0), UsageError);
  CHECK_THROWS_AS(listen_for_dials("203.0.113.1", 0), CommError);
}

TEST_CASE("the memory group of a process is found in both versions", "[launcher]") {
  const auto v1 = controller_place("9:name=systemd:/\n4:memory:/jobs/one\n0::/other\n", "memory");
  REQUIRE(v1);
  CHECK(v1->version == 1);
  CHECK(v1->name == "/jobs/one");
  const auto v2 = controller_place("0::/user.slice/a:b\n", "memory");
  REQUIRE(v2);
  CHECK(v2->version == 2);
  CHECK(v2->name == "/user.slice/a:b");
  CHECK(controller_place("4:cpu,memory,io:/x\n", "memory")->name == "/x");
  CHECK_FALSE(controller_place("4:cpu:/x\n", "memory"));
  CHECK_FALSE(controller_place("nonsense", "memory"));
}

TEST_CASE("counters are read from the kernel's texts", "[launcher]") {
  CHECK(counter("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "oom_kill") == 3);
  CHECK(counter("MemTotal: 9 kB\nMemAvailable:     12 kB\n", "MemAvailable") == 12 * 1024);
  CHECK_FALSE(counter("oom 1\n", "oom_kill"));
  CHECK_FALSE(counter("", "oom_kill"));
}

}  // namespace ds
