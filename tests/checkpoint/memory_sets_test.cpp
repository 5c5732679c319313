#include "checkpoint/hosts/memory_sets.h"

#include <array>

#include "tests/support/catch.h"

using namespace ds;

namespace {

HostFile kept(int host, int rank, int64_t epoch, int64_t step, int files, int buffer = 0) {
  return {host,
          {.set = {.epoch = epoch, .step = step, .files = files, .digest = "digest"},
           .rank = rank,
           .buffer = buffer,
           .bytes = 4096,
           .tail = 0}};
}

// Plays the plan as ranks do: each takes its own part in order and waits for the other. Returns how
// many were done when nobody could go on.
size_t play(const std::vector<PeerCopy>& plan, int ranks) {
  std::vector<size_t> at(static_cast<size_t>(ranks), 0);
  const auto next_of = [&](int rank) {
    size_t& i = at[static_cast<size_t>(rank)];
    while (i < plan.size() && plan[i].from != rank && plan[i].to != rank) ++i;
    return i;
  };
  size_t done = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < ranks; ++rank) {
      const size_t mine = next_of(rank);
      if (mine == plan.size()) continue;
      const int other = plan[mine].from == rank ? plan[mine].to : plan[mine].from;
      if (next_of(other) != mine) continue;
      ++at[static_cast<size_t>(rank)];
      ++at[static_cast<size_t>(other)];
      ++done;
      moved = true;
    }
  }
  return done;
}

}  // namespace

TEST_CASE("a set is whole when each of its files is kept somewhere", "[checkpoint]") {
  std::vector<HostFile> all{kept(0, 0, 1, 5, 2), kept(1, 1, 1, 5, 2), kept(0, 0, 1, 6, 2, 1)};
  std::vector<WholeSet> sets = whole_sets(all);
  REQUIRE(sets.size() == 1);
  CHECK(sets[0].id.step == 5);
  CHECK(sets[0].files[1].hosts == std::vector<int>{1});
  CHECK(newest_kept_step(all) == 6);

  all.push_back(kept(0, 1, 1, 6, 2, 1));
  all.push_back(kept(1, 1, 1, 6, 2, 1));
  sets = whole_sets(all);
  REQUIRE(sets.size() == 2);
  CHECK(sets[0].id.step == 6);
  CHECK(sets[0].buffer == 1);
  CHECK(sets[0].files[1].hosts == std::vector<int>{0, 1});

  // With another epoch, or under another manifest, it is another set.
  const std::array<HostFile, 2> torn{kept(0, 0, 1, 7, 2), kept(1, 1, 2, 7, 2)};
  CHECK(whole_sets(torn).empty());
  CHECK(whole_sets({}).empty());
  CHECK(!newest_kept_step({}));
}

TEST_CASE("files that cannot be of a set do not make it whole", "[checkpoint]") {
  const std::array<HostFile, 3> wrong{kept(0, 2, 1, 5, 2), kept(0, 0, 1, 5, 2),
                                      kept(0, -1, 1, 5, 2)};
  CHECK(whole_sets(wrong).empty());
  const std::array<HostFile, 1> none{kept(0, 0, 1, 5, -3)};
  CHECK(whole_sets(none).empty());
  std::array<HostFile, 3> other_size{kept(0, 0, 1, 5, 2), kept(0, 1, 1, 5, 2), kept(1, 1, 1, 5, 2)};
  other_size[2].file.bytes = 8192;
  REQUIRE(whole_sets(other_size).size() == 1);
  CHECK(whole_sets(other_size)[0].files[1].hosts == std::vector<int>{0});
}

TEST_CASE("every rank has its copy on the next host, and nobody waits in a ring", "[checkpoint]") {
  const std::vector<std::vector<int>> shapes{{2, 2}, {1, 1, 1}, {3, 1}, {1, 4, 2}, {2, 2, 2, 2, 1}};
  for (const std::vector<int>& sizes : shapes) {
    std::vector<int> local_ranks;
    for (const int size : sizes) {
      for (int i = 0; i < size; ++i) local_ranks.push_back(i);
    }
    const std::vector<int> host_of = hosts_of_ranks(local_ranks);
    const auto ranks = static_cast<int>(host_of.size());
    const std::vector<PeerCopy> plan = plan_peer_copies(host_of);
    CHECK(plan.size() == host_of.size());
    std::vector<int> sent(host_of.size(), 0);
    for (const PeerCopy& copy : plan) {
      ++sent[static_cast<size_t>(copy.from)];
      const int hosts = host_of.back() + 1;
      CHECK(host_of[static_cast<size_t>(copy.to)] ==
            (host_of[static_cast<size_t>(copy.from)] + 1) % hosts);
    }
    CHECK(sent == std::vector<int>(host_of.size(), 1));
    CHECK(play(plan, ranks) == plan.size());
  }
  const std::array<int, 4> one_host{0, 0, 0, 0};
  CHECK(plan_peer_copies(one_host).empty());
}

TEST_CASE("who keeps a file sends it, each rank its share", "[checkpoint]") {
  const std::array<int, 5> host_of{0, 0, 1, 1, 2};
  CHECK(sender_of({.hosts = {1}}, 0, host_of) == 2);
  CHECK(sender_of({.hosts = {1}}, 1, host_of) == 3);
  CHECK(sender_of({.hosts = {0, 2}}, 1, host_of) == 4);
  CHECK_THROWS(sender_of({}, 1, host_of));
  const std::array<int, 2> headless{1, 0};
  CHECK_THROWS(hosts_of_ranks(headless));
}
