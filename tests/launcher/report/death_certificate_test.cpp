// What is said when a rank dies: who did it, and what it said last.
#include "launcher/report/death_certificate.h"

#include <fmt/format.h>

#include <csignal>

#include "tests/support/catch.h"

namespace ds {
namespace {

Failure killed_by(int signal) {
  return {1, Failure::Kind::kSignal, signal, Blame::kOwn, "", {}, 12};
}

DeathCircumstances with_note(const std::string& note) {
  DeathCircumstances out;
  out.words.add(note);
  return out;
}

DeathCircumstances with_memory(const MemoryDeath& memory) {
  DeathCircumstances out;
  out.memory = memory;
  return out;
}

}  // namespace

TEST_CASE("the GPU of a rank that died is told as it was last seen", "[launcher]") {
  DeathCircumstances out;
  out.gpu = GpuState{.index = 3, .name = "NVIDIA H200"};
  out.gpu->figures = {.memory_total = int64_t{140} << 30,
                      .memory_used = int64_t{139} << 30,
                      .temperature = 88,
                      .sm_clock = 1200,
                      .power = 701234,
                      .last_xid = 79};
  CHECK(death_details(killed_by(SIGABRT), out) ==
        "  gpu        GPU 3 (NVIDIA H200): 139 GiB of 140 GiB, 88 degrees C, 1200 MHz, 701 W, "
        "Xid 79 (it has fallen off the bus)\n");
  out.gpu->problem = "GPU is lost";
  CHECK(death_details(killed_by(SIGABRT), out) ==
        "  gpu        GPU 3 (NVIDIA H200): GPU is lost\n");
}

TEST_CASE("a note says who sent the signal", "[launcher]") {
  const auto phrase = [](int signal, const std::string& note) {
    return death_phrase(killed_by(signal), with_note(note));
  };
  CHECK(
      phrase(SIGTERM,
             "=== signal report signal=15 code=0 sender=4321 user=1000 address=0 name=my shell") ==
      "sent by pid 4321 (my shell) of user 1000");
  CHECK(phrase(SIGTERM, "=== signal report signal=15 code=0 sender=4321 user=0 address=0 name=") ==
        "sent by pid 4321 of user 0");
  CHECK(phrase(SIGTERM, "=== signal report signal=15 code=0 sender=0 user=0 address=0 name=") ==
        "sent from outside its container");
  CHECK(phrase(SIGSEGV, "=== signal report signal=11 code=1 sender=0 user=0 address=dead0 name=") ==
        "at address 0xdead0, nothing is mapped there");
  CHECK(phrase(SIGFPE, "=== signal report signal=8 code=1 sender=0 user=0 address=5 name=") ==
        "at address 0x5, division by zero");
  CHECK(phrase(SIGSEGV, "=== signal report signal=15 code=0 sender=1 user=0 address=0 name=")
            .empty());
  CHECK(phrase(SIGSEGV, "words").empty());
}

TEST_CASE("only a whole note is a note", "[launcher]") {
  CHECK(
      parse_signal_report("=== signal report signal=6 code=-6 sender=9 user=8 address=7f name=a b")
          ->sender_name == "a b");
  for (const std::string line :
       {"", "=== signal report ", "=== signal report signal=x code=0",
        "=== signal report signal=6 code=1 sender=2 user=3 address=zz name=",
        "=== signal report signal=6 code=1 sender=2 user=3 address=1", "signal report"}) {
    CHECK_FALSE(parse_signal_report(line));
  }
}

TEST_CASE("SIGKILL is the kernel's, somebody's, or nobody knows whose", "[launcher]") {
  const auto phrase = [](const MemoryDeath& memory) {
    return death_phrase(killed_by(SIGKILL), with_memory(memory));
  };
  CHECK(phrase({.looked = true,
                .out_of_memory = true,
                .cgroup = "/job",
                .cgroup_limit = int64_t{2} << 30}) ==
        "by the kernel's OOM killer: cgroup /job has a limit of 2.0 GiB");
  CHECK(phrase({.looked = true, .out_of_memory = true, .cgroup = "/job"}) ==
        "by the kernel's OOM killer: cgroup /job");
  CHECK(phrase({.looked = true,
                .out_of_memory = true,
                .kernel_line = "Out of memory: Killed process 5 (rankd)"}) ==
        "by the kernel's OOM killer: the machine ran out of memory");
  CHECK(phrase({.looked = true, .out_of_memory = true}) ==
        "probably by the kernel, which killed for memory on this machine at that time");
  CHECK(phrase({.looked = true}) ==
        "from outside: the kernel counted no process killed for memory");
  CHECK(phrase({}).empty());
  CHECK_THAT(death_details(killed_by(SIGKILL), {}), Catch::Contains("dmesg tells"));
}

TEST_CASE("the block names process, kernel and the last words", "[launcher]") {
  DeathCircumstances out =
      with_memory({.looked = true, .out_of_memory = true, .kernel_line = "Killed process 77"});
  out.host = "node-2";
  out.pid = 77;
  out.progress = {.step = 6,
                  .micro_step = 0,
                  .phase = "train",
                  .collective = {9, "data", 57, "all_gather", true}};
  for (int line = 1; line <= 7; ++line) out.words.add(fmt::format("line {}", line));
  CHECK(death_details(killed_by(SIGKILL), out) ==
        "  process    pid 77 on node-2\n"
        "  last seen  at step 6.0 train inside all_gather #57 of data\n"
        "  kernel     Killed process 77\n"
        "  advice     more memory for the job, fewer ranks on the host, or a higher ZeRO stage; "
        "`dslaunch "
        "plan` shows what takes the memory\n"
        "  it said    line 3\n"
        "             line 4\n"
        "             line 5\n"
        "             line 6\n"
        "             line 7\n");
  CHECK(death_details({0, Failure::Kind::kExit, 65, Blame::kOwn, "bad token", {}, 0}, {}).empty());
}

TEST_CASE("only who lacks room is told to make some", "[launcher]") {
  const auto details = [](int code, const std::string& words) {
    return death_details({0, Failure::Kind::kExit, code, Blame::kOwn, words, {}, 0}, {});
  };
  for (const std::string words :
       {"write at byte 0 of /run/x: No space left on device (0 of 1048576 bytes are free there)",
        "save global_step3: need=2097152 free=100 bytes in /run",
        "create /run/x: Disk quota exceeded (a quota of this user or project, not the disk)"}) {
    CHECK_THAT(details(74, words), Catch::Contains("make room"));
  }
  CHECK(details(74, "fsync /run/x: Input/output error").empty());
  CHECK(details(65, "corpus.txt: No space left on device").empty());
}

TEST_CASE("the kernel's log is read for one process and one time", "[launcher]") {
  const std::string kill =
      "3,900,5000000,-;Memory cgroup out of memory: Killed process 77 (rankd) total-vm:1kB\n "
      "SUBSYSTEM=x";
  const auto found = memory_death_in(kill, 77, 4000000);
  REQUIRE(found);
  CHECK(found->kernel_line ==
        "Memory cgroup out of memory: Killed process 77 (rankd) total-vm:1kB");
  CHECK_FALSE(memory_death_in(kill, 7, 4000000));
  CHECK_FALSE(memory_death_in(kill, 77, 6000000));
  const auto group = memory_death_in(
      "6,901,5000000,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/"
      ",mems_allowed=0,"
      "oom_memcg=/jobs/one,task_memcg=/jobs/one,task=rankd,pid=77,uid=0",
      77, 0);
  REQUIRE(group);
  CHECK(group->cgroup == "/jobs/one");
  CHECK_FALSE(memory_death_in("no record", 77, 0));
  CHECK_FALSE(memory_death_in("", 77, 0));
}

}  // namespace ds
