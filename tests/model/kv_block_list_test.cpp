// The free list of key/value cache blocks.
#include "model/kv_block_list.h"

#include "core/error.h"
#include "tests/support/catch.h"

using namespace ds;
using Blocks = std::vector<int64_t>;

TEST_CASE("blocks are handed out in order and the last freed first", "[model]") {
  KvBlockList list(5);
  CHECK(list.allocate(3) == Blocks{0, 1, 2});
  list.free(Blocks{0, 2});
  CHECK(list.free_blocks() == 4);
  CHECK(list.allocate(3) == Blocks{2, 0, 3});
  CHECK(list.allocate(0).empty());
}

TEST_CASE("a refused call changes nothing", "[model]") {
  KvBlockList list(3);
  const Blocks taken = list.allocate(2);
  CHECK_THROWS_AS(list.allocate(2), OutOfMemory);
  CHECK_THROWS_AS(list.allocate(-1), InternalError);
  CHECK_THROWS_AS(list.free(Blocks{0, 2}), InternalError);
  CHECK_THROWS_AS(list.free(Blocks{0, 0}), InternalError);
  CHECK_THROWS_AS(list.free(Blocks{3}), InternalError);
  CHECK(list.free_blocks() == 1);
  list.free(taken);
  CHECK(list.free_blocks() == 3);
  CHECK_THROWS_AS(KvBlockList(0), ConfigError);
}
