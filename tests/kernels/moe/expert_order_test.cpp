// The order of experts against a stable sort.
#include "kernels/moe/expert_order.h"

#include "core/device/device_flags.h"
#include "tests/kernels/moe/moe_reference.h"
#include "tests/support/catch.h"

namespace ds::kernels {
namespace {

using namespace reference;

void check_sorted(Stream& stream, const Ints& experts, int64_t choices, int64_t count) {
  for (const ChoiceOrder by : {ChoiceOrder::kByToken, ChoiceOrder::kByChoice}) {
    INFO(experts.size() << " choices, k " << choices << ", " << count << " experts");
    const ExpertOrder to = room_for_order(static_cast<int64_t>(experts.size()), count, stream);
    sort_by_expert(stream, ints(experts, stream), choices, by, to);
    const SortedChoices expected = sorted_choices(experts, choices, count, by);
    REQUIRE(ints_of(to.counts) == expected.counts);
    REQUIRE(ints_of(to.offsets) == expected.offsets);
    REQUIRE(ints_of(to.order) == expected.order);
    REQUIRE(ints_of(to.place) == expected.place);
  }
}

TEST_CASE("choices are sorted by expert, those of one in the order of tokens or choices",
          "[kernels][moe][device]") {
  TestStream s;
  const int64_t most = testing::test_device().is_emulated ? 1500 : 9001;
  for (const int64_t experts : {1, 2, 8, 64, 257, 1024}) {
    for (const int64_t k : {1, 2, 5}) {
      for (const int64_t tokens : {int64_t{0}, int64_t{1}, int64_t{33}, most}) {
        if (tokens == most && k == 2) continue;
        check_sorted(s.stream, random_experts(tokens * k, experts, 7, 1), k, experts);
      }
    }
  }
}

TEST_CASE("experts may have all choices, or none", "[kernels][moe][device]") {
  TestStream s;
  check_sorted(s.stream, Ints(1200, 3), 2, 8);
  check_sorted(s.stream, Ints(600, 0), 1, 8);
  check_sorted(s.stream, Ints(600, 7), 3, 8);
  check_sorted(s.stream, Ints(40, -1), 2, 8);
}

TEST_CASE("the order of experts is the same for any number of threads", "[kernels][moe]") {
  const Ints experts = random_experts(20000, 64, 9, 2);
  for (const int threads : {1, 2, 4}) {
    TestStream s(threads);
    check_sorted(s.stream, experts, 4, 64);
  }
}

TEST_CASE("the first choices of tokens are counted by expert", "[kernels][moe][device]") {
  TestStream s;
  const Ints experts{1, 0, 1, 2, -1, 1, 1, 1};
  const Tensor of = ints(experts, s.stream);
  Tensor counts = room_for_ints(3, s.stream);
  count_choices(s.stream, of, {.choices = 2, .counted = 1}, counts);
  CHECK(ints_of(counts) == Ints{0, 3, 0});
  count_choices(s.stream, of, {.choices = 2, .counted = 2}, counts);
  CHECK(ints_of(counts) == Ints{1, 5, 1});
  const Ints many = random_experts(6000, 8, 5, 4);
  Ints expected(8, 0);
  for (size_t i = 0; i < many.size(); ++i) {
    if (i % 3 < 2 && many[i] >= 0) ++expected[static_cast<size_t>(many[i])];
  }
  counts = room_for_ints(8, s.stream);
  count_choices(s.stream, ints(many, s.stream), {.choices = 3, .counted = 2}, counts);
  CHECK(ints_of(counts) == expected);
}

TEST_CASE("an expert that the layer does not have is found, and left out",
          "[kernels][moe][device]") {
  TestStream s;
  const Ints experts{0, 2, 1, 0};
  const ExpertOrder to = room_for_order(4, 2, s.stream);
  const auto sort = [&] {
    sort_by_expert(s.stream, ints(experts, s.stream), 1, ChoiceOrder::kByToken, to);
    DeviceFlags(s.stream).wait_and_check("sort");
  };
  if (testing::is_on_device()) {
    CHECK_THROWS_WITH(sort(), Catch::Contains("an expert that the layer does not have"));
    CHECK(ints_of(to.counts) == Ints{2, 1});
    CHECK(ints_of(to.place) == Ints{0, -1, 2, 1});
  } else {
    CHECK_THROWS_WITH(sort(), Catch::Contains("choice 1 is expert 2, expected -1 to 1"));
  }
}

TEST_CASE("an order refuses operands that do not fit", "[kernels][moe]") {
  TestStream s;
  const Tensor experts = ints({0, 1, 0, 1}, s.stream);
  ExpertOrder to = room_for_order(4, 2, s.stream);
  const auto sort = [&](int64_t k) {
    sort_by_expert(s.stream, experts, k, ChoiceOrder::kByToken, to);
  };
  CHECK_THROWS_WITH(sort(3), Catch::Contains("experts has shape [4], expected rows of 3"));
  to.order = room_for_ints(3, s.stream);
  CHECK_THROWS_WITH(sort(1), Catch::Contains("sort_by_expert: order has shape [3]"));
  to = room_for_order(4, 2, s.stream);
  to.offsets = room_for_ints(2, s.stream);
  CHECK_THROWS_WITH(sort(1), Catch::Contains("offsets has shape [2] (2 elements), expected 3"));
  to = room_for_order(4, 1025, s.stream);
  CHECK_THROWS_WITH(sort(1), Catch::Contains("1025 experts, expected 1 to 1024"));
  to.counts = {};
  CHECK_THROWS_WITH(sort(1), Catch::Contains("counts is undefined"));
  Tensor counts = room_for_ints(2, s.stream);
  CHECK_THROWS_WITH(count_choices(s.stream, experts, {.choices = 2, .counted = 3}, counts),
                    Catch::Contains("count_choices: the first 3 choices, expected 1 to 2"));
}

}  // namespace
}  // namespace ds::kernels
