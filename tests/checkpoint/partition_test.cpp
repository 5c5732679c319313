// Who owns which elements under ZeRO.
#include "checkpoint/deepspeed/partition.h"

#include <numeric>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using List = std::vector<int64_t>;

TEST_CASE("a flat group is padded at its end only", "[zero]") {
  const int64_t numels[] = {5};
  const auto p = partition_flat_group(numels, 2, FlatOrder::kGiven);
  CHECK(p.aligned_numel == 8);
  CHECK(p.partition_numel == 4);
  CHECK(p.paddings == List{0, 3});
  CHECK(p.owned == std::vector<List>{{0}, {0}});
  CHECK(p.first_offset == List{0, 4});
}

TEST_CASE("round robin deals parameters out to the ranks", "[zero]") {
  const int64_t numels[] = {14, 7, 17, 18, 2, 13, 9};
  const auto p = partition_flat_group(numels, 4, FlatOrder::kRoundRobin);
  CHECK(p.order == List{0, 4, 1, 5, 2, 6, 3});
  CHECK(p.owned == std::vector<List>{{0, 4, 1}, {1, 5, 2}, {2, 6}, {6, 3}});
  CHECK(p.first_offset == List{0, 4, 4, 7});
}

TEST_CASE("slices and padding add up to the aligned group", "[zero]") {
  const int64_t numels[] = {4, 14, 0, 3, 13};
  for (int world = 1; world <= 20; ++world) {
    for (const FlatOrder order : {FlatOrder::kGiven, FlatOrder::kRoundRobin}) {
      const auto p = partition_flat_group(numels, world, order);
      CHECK(p.aligned_numel % (2 * world) == 0);
      CHECK(p.partition_numel * world == p.aligned_numel);
      CHECK(std::accumulate(p.paddings.begin(), p.paddings.end(), int64_t{0}) ==
            p.aligned_numel - 34);
    }
  }
}

TEST_CASE("a stage 3 parameter is rounded up to the ranks", "[zero]") {
  CHECK(partition_parameter(10, 4).partition_numel == 3);
  CHECK(partition_parameter(10, 4).padding == 2);
  CHECK(partition_parameter(0, 4).partition_numel == 0);
  CHECK_THROWS_AS(partition_parameter(10, 0), InternalError);
}

TEST_CASE("a partitioned tensor carries its cut along", "[zero]") {
  const int64_t shape[] = {7};
  const auto p = partition_tensor(shape, 2, 1);
  CHECK(p.start == 4);
  CHECK(p.numel == 3);
  CHECK(p.meta == List{1, 7, 2, 1, 0, 4, 7});
  CHECK_THROWS_AS(partition_tensor(shape, 2, 2), InternalError);
}

}  // namespace
}  // namespace ds
