// Capacities against plain loops. tests/model/parallel/moe_kernels_test.cpp has whole gates.
#include "kernels/moe/capacity.h"

#include <cmath>
#include <limits>

#include "tests/kernels/moe/moe_reference.h"
#include "tests/support/catch.h"

namespace ds::kernels {
namespace {

using namespace reference;

// What is left of choices where each expert keeps the best `capacity`.
Ints kept(const Ints& experts, const SortedChoices& sorted, const Values& priorities,
          int64_t capacity) {
  Ints left = experts;
  for (size_t e = 0; e + 1 < sorted.offsets.size(); ++e) {
    Ints own(sorted.order.begin() + sorted.offsets[e],
             sorted.order.begin() + sorted.offsets[e + 1]);
    if (!priorities.empty()) {
      const auto of = [&](int32_t choice) {
        const double x = priorities[static_cast<size_t>(choice)];
        return std::isnan(x) ? -std::numeric_limits<double>::infinity() : x;
      };
      std::ranges::stable_sort(own, [&](int32_t a, int32_t b) { return of(a) > of(b); });
    }
    for (size_t i = static_cast<size_t>(capacity); i < own.size(); ++i) {
      left[static_cast<size_t>(own[i])] = -1;
    }
  }
  return left;
}

struct Given {
  Ints experts;
  int64_t choices, count;
  Values priorities;  // or empty
};

void check_dropped(Stream& stream, const Given& given, int64_t capacity) {
  INFO(given.count << " experts, capacity " << capacity);
  for (const ChoiceOrder by : {ChoiceOrder::kByToken, ChoiceOrder::kByChoice}) {
    const auto numel = static_cast<int64_t>(given.experts.size());
    const Tensor experts = ints(given.experts, stream);
    const ExpertOrder to = room_for_order(numel, given.count, stream);
    sort_by_expert(stream, experts, given.choices, by, to);
    CapacityArgs args{
        .offsets = to.offsets, .order = to.order, .capacity = capacity, .experts = experts};
    if (!given.priorities.empty()) {
      args.priorities = tensor_of(given.priorities, {numel}, DType::kF32, stream);
    }
    drop_over_capacity(stream, args);
    const SortedChoices sorted = sorted_choices(given.experts, given.choices, given.count, by);
    REQUIRE(ints_of(experts) == kept(given.experts, sorted, given.priorities, capacity));
  }
}

TEST_CASE("an expert keeps its first choices, or those of the highest priority",
          "[kernels][moe][device]") {
  TestStream s;
  const Rng rng(5, "priorities");
  for (const int64_t experts : {1, 2, 8, 64}) {
    for (const int64_t tokens : {0, 1, 45, 700}) {
      Given given{.experts = random_experts(2 * tokens, experts, 9, 3),
                  .choices = 2,
                  .count = experts,
                  .priorities = {}};
      for (const int64_t capacity : {0, 1, 7, 40, 5000}) {
        given.priorities.clear();
        check_dropped(s.stream, given, capacity);
        // Many are equal.
        for (size_t i = 0; i < given.experts.size(); ++i) {
          given.priorities.push_back(std::floor(static_cast<double>(rng.normal(i)) * 2) / 4);
        }
        check_dropped(s.stream, given, capacity);
        for (size_t i = 0; i < given.experts.size(); ++i) {
          given.priorities[i] = static_cast<double>(rng.normal(i) * 1e-3F);
        }
        check_dropped(s.stream, given, capacity);
      }
    }
  }
}

TEST_CASE("equal priorities keep the first choices, and NaN is the least of all",
          "[kernels][moe][device]") {
  TestStream s;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Given given{.experts = Ints(8, 0),
                    .choices = 1,
                    .count = 1,
                    .priorities = {nan, 0.0, -0.0, kInfinity, -kInfinity, -1, 2, nan}};
  for (int64_t capacity = 0; capacity <= 8; ++capacity) check_dropped(s.stream, given, capacity);
  for (const double all : {0.25, 0.0, -3.0}) {
    check_dropped(
        s.stream,
        {.experts = Ints(700, 1), .choices = 1, .count = 2, .priorities = Values(700, all)}, 300);
  }
}

TEST_CASE("what is dropped is the same for any number of threads", "[kernels][moe]") {
  Given given{
      .experts = random_experts(6000, 16, 0, 3), .choices = 3, .count = 16, .priorities = {}};
  const Rng rng(6, "priorities");
  for (size_t i = 0; i < 6000; ++i) {
    given.priorities.push_back(static_cast<double>(rng.uniform(i)));
  }
  for (const int threads : {1, 2, 4}) {
    TestStream s(threads);
    check_dropped(s.stream, given, 111);
  }
}

TEST_CASE("a capacity refuses operands that do not fit", "[kernels][moe]") {
  TestStream s;
  CapacityArgs args{.offsets = room_for_ints(3, s.stream),
                    .order = room_for_ints(4, s.stream),
                    .capacity = -1,
                    .experts = room_for_ints(4, s.stream)};
  const auto drop = [&] { drop_over_capacity(s.stream, args); };
  CHECK_THROWS_WITH(drop(), Catch::Contains("drop_over_capacity: capacity -1"));
  args.capacity = 1;
  args.order = room_for_ints(5, s.stream);
  CHECK_THROWS_WITH(drop(), Catch::Contains("order has shape [5]"));
  args.order = room_for_ints(4, s.stream);
  args.priorities = Tensor::empty({2}, DType::kF32, s.stream);
  CHECK_THROWS_WITH(drop(), Catch::Contains("priorities has shape [2]"));
  args.priorities = {};
  args.offsets = room_for_ints(1, s.stream);
  CHECK_THROWS_WITH(drop(), Catch::Contains("offsets of no expert"));
  args.experts = {};
  CHECK_THROWS_WITH(drop(), Catch::Contains("undefined"));
}

}  // namespace
}  // namespace ds::kernels
