// Headers of swap files and extents: what was written comes back, and every changed bit is found.
#include "offload/swap_format.h"

#include <functional>

#include "core/values/index.h"
#include "tests/offload/swapping.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Catch::Contains;
using test::Bytes;

const SwapOwner kOwner{.job = "night-run", .epoch = 3, .rank = 1, .world = 2};
const SwapPlace kPlace{.path = "/nvme/rank-1.swap", .offset = 8192};

Bytes header_of(const SwapExtent& extent) {
  Bytes header(to_size(swap_extent_header_bytes(extent.length, extent.block_bytes)));
  encode(extent, header);
  return header;
}

SwapExtent extent_of(const Bytes& data, int64_t generation = 7) {
  return describe_swap_extent(kOwner, "layer.3/exp_avg", generation, 512, data);
}

TEST_CASE("the header of a swap file comes back as it was", "[offload]") {
  const SwapFileHeader header{
      .owner = kOwner, .file_bytes = int64_t{1} << 40, .pid = 4711, .host = "node-17"};
  const Bytes page = encode(header);
  REQUIRE(page.size() == to_size(kSwapPage));
  CHECK(has_swap_magic(page));
  const SwapFileHeader found = parse_swap_file_header(page, "x");
  CHECK(found.owner == kOwner);
  CHECK(found.file_bytes == header.file_bytes);
  CHECK(found.pid == 4711);
  CHECK(found.host == "node-17");
  CHECK(to_string(found.owner) == "job night-run, generation 3, rank 1 of 2");
  SwapFileHeader long_host = header;
  long_host.host = std::string(300, 'h');
  CHECK(parse_swap_file_header(encode(long_host), "x").host == std::string(64, 'h'));
}

TEST_CASE("every bit of a swap file's header that changes is found", "[offload]") {
  Bytes page = encode(SwapFileHeader{.owner = kOwner, .file_bytes = 1, .pid = 2, .host = "h"});
  for (size_t i = 0; i < page.size(); ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      page[i] ^= static_cast<std::byte>(1U << bit);
      REQUIRE_THROWS_AS(parse_swap_file_header(page, "x"), SwapCorrupt);
      page[i] ^= static_cast<std::byte>(1U << bit);
    }
  }
  CHECK_NOTHROW(parse_swap_file_header(page, "x"));
  for (const size_t count : {0UL, 1UL, 8UL, 4095UL}) {
    CHECK_THROWS_WITH(parse_swap_file_header(std::span(page).first(count), "/nvme/rank-1.swap"),
                      Contains("/nvme/rank-1.swap") && Contains("expected 4096: truncated"));
  }
}

TEST_CASE("every bit of an extent's header or data that changes is found", "[offload]") {
  Bytes data = test::random_bytes(1300, 5);  // two blocks and a part of one
  const SwapExtent extent = extent_of(data);
  REQUIRE(extent.blocks.size() == 3);
  Bytes header = header_of(extent);
  REQUIRE_NOTHROW(check_swap_extent(header, data, extent, kPlace));
  for (Bytes* bytes : {&header, &data}) {
    for (size_t i = 0; i < bytes->size(); ++i) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        (*bytes)[i] ^= static_cast<std::byte>(1U << bit);
        REQUIRE_THROWS_AS(check_swap_extent(header, data, extent, kPlace), SwapCorrupt);
        (*bytes)[i] ^= static_cast<std::byte>(1U << bit);
      }
    }
  }
  CHECK_NOTHROW(check_swap_extent(header, data, extent, kPlace));
}

std::string complaint(const Bytes& header, const Bytes& data, const SwapExtent& expected) {
  try {
    check_swap_extent(header, data, expected, kPlace);
  } catch (const SwapCorrupt& error) {
    return error.what();
  }
  return "none";
}

TEST_CASE("what is wrong with an extent is told by its header", "[offload]") {
  const Bytes data = test::random_bytes(1300, 5);
  const SwapExtent expected = extent_of(data);
  const std::string start = "swap file /nvme/rank-1.swap, \"layer.3/exp_avg\" at byte 8192: ";
  const auto with = [&](const std::function<void(SwapExtent&)>& change) {
    SwapExtent other = expected;
    change(other);
    return complaint(header_of(other), data, expected);
  };
  CHECK(with([](SwapExtent&) {}) == "none");
  CHECK(with([](SwapExtent& e) { e.owner.job = "day-run"; }) ==
        start + "job is day-run, expected night-run (the file of another job)");
  CHECK(with([](SwapExtent& e) { e.owner.epoch = 2; }) ==
        start + "generation is 2, expected 3 (the file of another generation of this job)");
  CHECK(with([](SwapExtent& e) { e.owner.rank = 0; }) ==
        start + "rank is 0, expected 1 (the file of another rank)");
  CHECK(with([](SwapExtent& e) { e.owner.world = 4; }) ==
        start + "world size is 4, expected 2 (the file of another generation of this job)");
  CHECK(with([](SwapExtent& e) { e.key = "layer.4/exp_avg"; }) ==
        start + "key is layer.4/exp_avg, expected layer.3/exp_avg (another tensor's extent)");
  CHECK(with([](SwapExtent& e) { e.generation = 6; }) ==
        start + "generation is 6, expected 7 (an old write; the last one never arrived)");
  CHECK(with([](SwapExtent& e) { e.generation = 8; }) ==
        start + "generation is 8, expected 7 (written by somebody else)");
  CHECK(with([](SwapExtent& e) { e.length = 1299; }) ==
        start + "length is 1299, expected 1300 (another tensor's extent)");
  CHECK_THAT(with([](SwapExtent& e) { e.blocks[1][0] ^= std::byte{1}; }),
             Contains(start + "header's digest of block 1 (512 bytes, 4608 behind the extent's "
                              "start) is "));
  Bytes damaged = data;
  damaged[1025] ^= std::byte{4};
  CHECK_THAT(
      complaint(header_of(expected), damaged, expected),
      Contains(start + "digest of block 2 (276 bytes, 5120 behind the extent's start) is ") &&
          Contains("bytes changed on the disk"));
  CHECK_THAT(complaint(Bytes(4096), data, expected),
             Contains("magic is 0000000000000000, expected DSSWAPEX (never written"));
  Bytes header = header_of(expected);
  header[8] = std::byte{9};
  CHECK_THAT(complaint(header, data, expected), Contains("format version is 9, expected 1"));
}

TEST_CASE("the header of one write with the data of another is found, whichever came first",
          "[offload]") {
  const Bytes before = test::random_bytes(1300, 5), after = test::random_bytes(1300, 6);
  const SwapExtent old_write = extent_of(before, 6), new_write = extent_of(after, 7);
  CHECK_THAT(complaint(header_of(old_write), after, new_write), Contains("generation is 6"));
  CHECK_THAT(complaint(header_of(new_write), before, new_write),
             Contains("a write that never arrived"));
  CHECK(complaint(header_of(new_write), after, new_write) == "none");
}

TEST_CASE("names that have no room are refused", "[offload]") {
  const Bytes data(10);
  Bytes header(4096);
  const std::string longest_key(kSwapKeyBytes, 'k');
  CHECK_NOTHROW(encode(describe_swap_extent(kOwner, longest_key, 1, 512, data), header));
  CHECK_THROWS_AS(encode(describe_swap_extent(kOwner, longest_key + "k", 1, 512, data), header),
                  InternalError);
  SwapOwner owner = kOwner;
  owner.job.assign(kSwapJobBytes + 1, 'j');
  CHECK_THROWS_AS(encode(SwapFileHeader{.owner = owner, .host = ""}), InternalError);
}

TEST_CASE("an extent's room is whole pages", "[offload]") {
  CHECK(swap_extent_bytes(1, 4096) == 8192);
  CHECK(swap_extent_bytes(4096, 4096) == 8192);
  CHECK(swap_extent_bytes(4097, 4096) == 12288);
  // 480 bytes of names and numbers, then 16 for each block: 226 of them fill the first page.
  CHECK(swap_extent_header_bytes(226 * 4096, 4096) == 4096);
  CHECK(swap_extent_header_bytes(227 * 4096, 4096) == 8192);
}

}  // namespace
}  // namespace ds
