#include "launcher/agents/host_leader.h"

#include <sys/socket.h>

#include <future>

#include "core/status/error.h"
#include "launcher/process/abstract_address.h"
#include "launcher/process/rank_binding.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using std::chrono::seconds;

std::string fresh_name() {
  static int count = 0;
  return slot_socket_name(fmt::format("test {} {}", getpid(), ++count), "", geteuid());
}

}  // namespace

TEST_CASE("what a slot may use, as a line", "[launcher]") {
  const SlotShare share{3, {0, 2, 17}};
  CHECK(share_packet(share) == "slot 3 cores 0,2,17");
  CHECK(parse_share(share_packet(share)) == share);
  const SlotShare with_gpus{1, {0}, {"GPU-1a", "3"}};
  CHECK(share_packet(with_gpus) == "slot 1 cores 0 gpus GPU-1a,3");
  CHECK(parse_share(share_packet(with_gpus)) == with_gpus);
  for (const char* line :
       {"slot 1 cores 0 gpus ", "slot 1 cores 0 gpus 1,", "slot 1 cores 0 gpus 1 2"})
    CHECK_FALSE(parse_share(line));
  for (const char* text : {"", "slot", "slot 1 cores ", "slot x cores 1", "slot 1 cores 1,,2",
                           "slot 1 cores 2,1", "slot 1 cores 1,1", "slot 1 cores -1",
                           "slot 1 cores 99999999", "slot 1 cores 1 ", "cores 1 slot 1"}) {
    INFO(text);
    CHECK_FALSE(parse_share(text));
  }
}

TEST_CASE("the variables of a slot travel behind its line, whatever they hold", "[launcher]") {
  using namespace std::string_literals;
  const SlotShare share{
      1, {0}, {"GPU-1a"}, {"PMIX_RANK=1", "EMPTY=", "LINES=a\nslot 2 cores 7=", "B=x=y"}};
  CHECK(parse_share(share_packet(share)) == share);
  for (const std::string& text : {"slot 1 cores 0\0"s, "slot 1 cores 0\0NAME"s,
                                  "slot 1 cores 0\0A=1\0"s, "\0A=1"s, "slot 1 cores \0A=1"s}) {
    INFO(text);
    CHECK_FALSE(parse_share(text));
  }
  const SlotShare endless{1, {0}, {}, {"OMPI_X=" + std::string(100'000, 'x')}};
  CHECK_THROWS_WITH(wait_for_first(fresh_name(), endless, seconds(0)),
                    Catch::Contains("OMPI_* and PMIX_* hold 1000"));
}

TEST_CASE("the others of a host come, wait, and get the exit code", "[launcher]") {
  const std::string name = fresh_name();
  auto second = std::async(std::launch::async, [&] {
    return wait_for_first(name, {2, {1}, {"3"}, {"PMIX_RANK=2"}}, seconds(10));
  });
  auto first = std::async(std::launch::async, [&] {
    return wait_for_first(name, {1, {0}}, seconds(10));
  });
  HostLeader peers(name);
  CHECK(peers.gather(2, seconds(10), -1) ==
        std::vector<SlotShare>{{1, {0}}, {2, {1}, {"3"}, {"PMIX_RANK=2"}}});
  peers.release(75);
  CHECK(first.get() == 75);
  CHECK(second.get() == 75);
}

TEST_CASE("who loses the first of its host ends with 69", "[launcher]") {
  const std::string name = fresh_name();
  auto peer = std::async(std::launch::async, [&] {
    return wait_for_first(name, {1, {0}}, seconds(10));
  });
  {
    HostLeader peers(name);
    peers.gather(1, seconds(10), -1);
  }
  CHECK(peer.get() == static_cast<int>(ExitCode::kClusterUnusable));
}

TEST_CASE("whoever does not come is named; strangers and doubles do not count", "[launcher]") {
  const std::string name = fresh_name();
  HostLeader peers(name);
  const AbstractAddress address(name);
  std::vector<Fd> callers;
  for (const char* text : {"hello", "slot 7 cores 0", "slot 1 cores 0", "slot 1 cores 0"}) {
    callers.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    REQUIRE(connect(callers.back().get(), address.get(), address.size()) == 0);
    REQUIRE(send(callers.back().get(), text, strlen(text), MSG_NOSIGNAL) > 0);
  }
  CHECK_THROWS_WITH(peers.gather(2, seconds(1), -1), Catch::Contains("local rank 2 did not come"));
  CHECK_THROWS_WITH(HostLeader(name), Catch::Contains("another job"));
  CHECK_THROWS_WITH(wait_for_first(fresh_name(), {1, {0}}, seconds(0)),
                    Catch::Contains("did not appear"));
}

TEST_CASE("bindings are kept where slots were given different cores", "[launcher]") {
  CHECK(slot_bindings({{0, 1}, {0, 1}}).empty());
  CHECK(slot_bindings({{0}, {1}}) == std::vector<std::vector<int>>{{0}, {1}});
  CHECK(threads_of_bindings({{0}, {1}}) == 1);
  CHECK(threads_of_bindings({{0, 1, 2, 3}, {0, 1, 2, 3}, {4, 5, 6, 7}, {4, 5, 6, 7}}) == 2);
  CHECK(threads_of_bindings({{0, 1, 2, 3}, {4, 5}}) == 2);
  CHECK(threads_of_bindings({{0}, {0}, {1}}) == 1);
}

}  // namespace ds
