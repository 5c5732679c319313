#include "launcher/process/rank_binding.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Cores = std::vector<std::vector<int>>;

std::vector<int> first_cpus(int count) {
  std::vector<int> out;
  for (int cpu = 0; cpu < count; ++cpu) out.push_back(cpu);
  return out;
}

// So many cores of one hardware thread each, in one package.
std::vector<PhysicalCore> plain_cores(int count) {
  std::vector<PhysicalCore> out;
  for (int core = 0; core < count; ++core) {
    PhysicalCore one;
    one.cpus = {core};
    out.push_back(one);
  }
  return out;
}

HostCpus host_of(const std::string& name, int cores, int slots) {
  return {name, plain_cores(cores), Cores(static_cast<size_t>(slots), first_cpus(cores))};
}

}  // namespace

TEST_CASE("slots are bound where that is asked for, or where they came bound", "[launcher]") {
  const HostCpus shared = host_of("", 4, 2);
  HostCpus bound = shared;
  bound.slots = {{0, 1}, {2, 3}};

  SECTION("not asked for") {
    const RankBinding out = bind_ranks({}, {shared});
    CHECK(out.cores.empty());
    CHECK_FALSE(out.threads);
    CHECK(out.report.empty());
  }
  SECTION("asked for") {
    BindingOptions options;
    options.bind = true;
    const RankBinding out = bind_ranks(options, {shared});
    CHECK(out.cores.at("") == Cores{{0, 1}, {2, 3}});
    CHECK(out.threads == 2);
  }
  SECTION("only on some cores, which asks for it, too") {
    BindingOptions options;
    options.cores = {{1, 3}};
    const RankBinding out = bind_ranks(options, {shared});
    CHECK(out.cores.at("") == Cores{{1}, {3}});
    CHECK(out.threads == 1);
  }
  SECTION("as the starter did") {
    const RankBinding out = bind_ranks({}, {bound});
    CHECK(out.cores.at("") == bound.slots);
    CHECK(out.threads == 2);
  }
}

TEST_CASE("no rank has more threads than the poorest host gives a slot", "[launcher]") {
  BindingOptions options;
  options.bind = true;
  const RankBinding out = bind_ranks(options, {host_of("big", 16, 2), host_of("small", 6, 2)});
  CHECK(out.threads == 3);
  CHECK(out.cores.at("big")[0].size() == 8);
  CHECK(out.cores.at("small")[1].size() == 3);
}

TEST_CASE("a host whose cores are too few is named", "[launcher]") {
  BindingOptions options;
  options.bind = true;
  CHECK_THROWS_WITH(bind_ranks(options, {host_of("node-1", 4, 2), host_of("node-2", 1, 2)}),
                    Catch::Contains("host node-2"));
  options.cores = {{7}};
  CHECK_THROWS_AS(bind_ranks(options, {host_of("", 4, 2)}), UsageError);
  CHECK_THROWS_WITH(bind_ranks(options, {host_of("", 4, 2)}), Catch::Contains("this machine"));
}

TEST_CASE("the report has a line for each slot, bound or not", "[launcher]") {
  BindingOptions options;
  options.report = true;
  const std::vector<HostCpus> hosts{host_of("", 2, 2)};
  const std::vector<std::string> free = bind_ranks(options, hosts).report;
  REQUIRE(free.size() == 2);
  CHECK_THAT(free[1], Catch::StartsWith("this machine slot 1: cores ") &&
                          Catch::EndsWith(", shared with the others"));
  options.bind = true;
  const std::vector<std::string> bound = bind_ranks(options, hosts).report;
  REQUIRE(bound.size() == 2);
  CHECK_THAT(bound[0], Catch::StartsWith("this machine slot 0: cores 0"));
  CHECK(bound[0].find("shared") == std::string::npos);
}

}  // namespace ds
