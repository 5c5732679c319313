// Texts of the kernel about memory: whose they are, what they count and what they leave unsaid.
#include "core/memory/cgroup.h"

#include <unistd.h>

#include <limits>

#include "tests/support/catch.h"

namespace ds {
namespace {

struct PlaceCase {
  std::string_view what;
  std::string_view text;
  int version;  // 0: none is found
  std::string_view name;
};

TEST_CASE("the memory group of a process is found in either version's text", "[core]") {
  const PlaceCase cases[] = {
      {"version 2 alone", "0::/user.slice/job\n", 2, "/user.slice/job"},
      {"version 2 without an end of line", "0::/job", 2, "/job"},
      {"version 1 alone", "4:memory:/old\n3:cpu,cpuacct:/other\n", 1, "/old"},
      {"memory among other controllers", "4:cpu,memory,pids:/old\n", 1, "/old"},
      {"both mounted: version 1 has the controller", "0::/new\n4:memory:/old\n", 1, "/old"},
      {"both mounted: version 1 has other controllers", "3:cpu:/old\n0::/new\n", 2, "/new"},
      {"version 1 named group without controllers", "1:name=systemd:/x\n0::/new\n", 2, "/new"},
      {"a controller whose name only contains memory", "2:memory_extra:/x\n", 0, ""},
      {"a name with colons", "0::/a:b:c\n", 2, "/a:b:c"},
      {"the root", "0::/\n", 2, "/"},
      {"an unnumbered empty hierarchy", "1::/x\n", 0, ""},
      {"lines that are none", "nonsense\n0:half\n\n", 0, ""},
      {"a line that is none before one that is", "nonsense\n0::/job\n", 2, "/job"},
      {"nothing", "", 0, ""}};
  for (const PlaceCase& one : cases) {
    CAPTURE(one.what);
    const std::optional<CgroupPlace> place = controller_place(one.text, "memory");
    CHECK(place.has_value() == (one.version != 0));
    if (!place || one.version == 0) continue;
    CHECK(place->version == one.version);
    CHECK(place->name == one.name);
  }
}

struct CounterCase {
  std::string_view text;
  std::string_view key;
  std::optional<int64_t> expected;
};

TEST_CASE("a counter is found by its whole name, in either form of line", "[core]") {
  const CounterCase cases[] = {
      {"low 0\nhigh 3\nmax 7\noom 1\noom_kill 2\n", "oom_kill", 2},
      {"low 0\nhigh 3\nmax 7\noom 1\noom_kill 2\n", "oom", 1},
      {"oom_kill_disable 9\noom_kill 4", "oom_kill", 4},
      {"xoom_kill 9\n", "oom_kill", std::nullopt},
      {"MemFree: 12 kB\nMemAvailable:       2048 kB\n", "MemAvailable", 2048 * 1024},
      {"MemAvailable:       2048\n", "MemAvailable", 2048},
      {"oom_kill\n", "oom_kill", std::nullopt},
      {"oom_kill \n", "oom_kill", std::nullopt},
      {"oom_kill max\n", "oom_kill", std::nullopt},
      {"oom_kill 9223372036854775807\n", "oom_kill", std::numeric_limits<int64_t>::max()},
      {"oom_kill 9223372036854775808\n", "oom_kill", std::nullopt},
      {"", "oom_kill", std::nullopt}};
  for (const CounterCase& one : cases) {
    CAPTURE(one.text, one.key);
    CHECK(counter(one.text, one.key) == one.expected);
  }
}

TEST_CASE("the time in which all of a group waited is read, not that of some of it", "[core]") {
  const std::string_view both =
      "some avg10=90.00 avg60=1.00 avg300=0.00 total=9\n"
      "full avg10=12.34 avg60=0.50 avg300=0.00 total=7\n";
  CHECK(full_stall_percent(both) == 12.34);
  CHECK(full_stall_percent("full avg10=0.00 avg60=0.00\n") == 0.0);
  CHECK(full_stall_percent("some avg10=90.00 avg60=1.00\n") == std::nullopt);
  CHECK(full_stall_percent("not full avg10=3.00\n") == std::nullopt);
  CHECK(full_stall_percent("full avg10=unknown\n") == std::nullopt);
  CHECK(full_stall_percent("") == std::nullopt);
}

TEST_CASE("a process that is not there is in no group, and none is found again", "[core]") {
  const MemoryCgroup nobody = memory_cgroup_of(std::numeric_limits<int>::max());
  CHECK(nobody.name.empty());
  CHECK_FALSE(nobody.limit.has_value());
  CHECK_FALSE(nobody.used.has_value());
  const MemoryCgroup again = read_again(nobody);
  CHECK(again.name.empty());
  CHECK_FALSE(again.oom_kills.has_value());
}

TEST_CASE("this process is the process of its own number, and its group is found by name",
          "[core]") {
  const MemoryCgroup mine = memory_cgroup_of(0);
  CHECK(memory_cgroup_of(::getpid()).name == mine.name);
  const MemoryCgroup again = read_again(mine);
  CHECK(again.name == mine.name);
  CHECK(again.limit == mine.limit);
  CHECK(again.used.has_value() == mine.used.has_value());
  if (mine.limit) CHECK(*mine.limit > 0);
  if (mine.used) CHECK(*mine.used > 0);
}

TEST_CASE("a group that is gone keeps its name and has no numbers", "[core]") {
  const MemoryCgroup gone =
      read_again({.name = "/there/is/no/such/group", .limit = 5, .used = 6, .oom_kills = 7});
  CHECK(gone.name == "/there/is/no/such/group");
  CHECK_FALSE(gone.limit.has_value());
  CHECK_FALSE(gone.used.has_value());
  CHECK_FALSE(gone.oom_kills.has_value());
}

TEST_CASE("pressure, where the kernel counts it, is a share and says whose it is", "[core]") {
  const std::optional<MemoryPressure> pressure = memory_pressure();
  if (!pressure) return;  // this kernel does not count it
  const bool named = pressure->whose == "the machine" || pressure->whose.starts_with("cgroup /");
  CHECK(named);
  CHECK(pressure->stalled_percent >= 0);
  CHECK(pressure->stalled_percent <= 100);
}

}  // namespace
}  // namespace ds
