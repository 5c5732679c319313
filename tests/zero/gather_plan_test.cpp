#include "zero/layout/gather_plan.h"

#include <sstream>

#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

// "numel 10 10 10 prefetch 0 live 100 reuse 0 : +0 -0 +1 -1": + acquire, - idle. Before the colon
// "fetch 10 buffers 2 of 0 2": slices of buckets 0 and 2 lie elsewhere, and are fetched 10 elements
// ahead through 2 buffers.
std::string answer(const std::string& command) {
  std::istringstream in(command);
  std::string word;
  GatherLimits limits;
  std::vector<int64_t> numel;
  in >> word;
  while (in >> word && word != "prefetch") numel.push_back(std::stoll(word));
  in >> limits.prefetch_numel >> word >> limits.live_numel >> word >> limits.reuse_numel >> word;
  std::vector<bool> elsewhere;
  if (word == "fetch") {
    elsewhere.resize(numel.size());
    in >> limits.fetch_numel >> word >> limits.fetches >> word;
    while (in >> word && word != ":") elsewhere.at(std::stoul(word)) = true;
  }
  std::vector<GatherEvent> events;
  while (in >> word) {
    events.push_back(
        {.kind = word[0] == '+' ? GatherEvent::Kind::kAcquire : GatherEvent::Kind::kIdle,
         .bucket = std::stoi(word.substr(1))});
  }
  return plan_gathers(events, numel, limits, elsewhere).to_string();
}

TEST_CASE("gathers and releases follow the limits as the golden file says", "[zero]") {
  testing::run_golden("zero/gather_plan.txt", answer);
}

TEST_CASE("what is made of codes is let go of whenever it is idle", "[zero]") {
  using Kind = GatherEvent::Kind;
  const std::vector<GatherEvent> events{
      {Kind::kAcquire, 0}, {Kind::kIdle, 0}, {Kind::kAcquire, 1}, {Kind::kIdle, 1},
      {Kind::kAcquire, 1}, {Kind::kIdle, 1}, {Kind::kAcquire, 0}, {Kind::kIdle, 0}};
  const std::vector<int64_t> numel{10, 20};
  const GatherLimits limits{.live_numel = 100, .reuse_numel = 100};
  CHECK(plan_gathers(events, numel, limits).numel_gathered == 30);
  CHECK(plan_gathers(events, numel, limits, {}, {true, false}).numel_gathered == 40);
  const GatherPlan brief = plan_gathers(events, numel, limits, {}, {true, true});
  CHECK(brief.numel_gathered == 60);
  CHECK(brief.live_numel_peak == 20);
}

}  // namespace
}  // namespace ds
