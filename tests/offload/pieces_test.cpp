#include "offload/async_io/pieces.h"

#include <random>

#include "tests/support/catch.h"

namespace ds {
namespace {

constexpr DirectAlignment kDisk{4096, 512};

std::byte* address(uintptr_t number) { return reinterpret_cast<std::byte*>(number); }

}  // namespace

TEST_CASE("whole pages are direct, and the ends are not", "[offload]") {
  const auto pieces = cut({100, address(512 + 100), 20'000}, kDisk, 8192);
  REQUIRE(pieces.size() == 4);
  CHECK(pieces[0].route == Route::kCached);
  CHECK(pieces[0].bytes == 3996);
  CHECK(pieces[1].route == Route::kDirect);
  CHECK(pieces[1].offset == 4096);
  CHECK(pieces[1].bytes == 8192);
  CHECK(pieces[2].offset == 12288);
  CHECK(pieces[2].bytes == 4096);
  CHECK(pieces[3].route == Route::kCached);
  CHECK(pieces[3].offset == 16384);
  CHECK(pieces[3].bytes == 3716);
}

TEST_CASE("memory that is not aligned passes through other memory", "[offload]") {
  CHECK(cut({0, address(512), 8192}, kDisk, 8192).front().route == Route::kDirect);
  CHECK(cut({0, address(513), 8192}, kDisk, 8192).front().route == Route::kBounced);
  CHECK(cut({0, address(513), 8192}, {}, 8192).front().route == Route::kCached);
}

TEST_CASE("pieces cover a request without gaps", "[offload]") {
  std::mt19937_64 draws(3);
  for (int turn = 0; turn < 2000; ++turn) {
    const Request request{static_cast<int64_t>(draws() % 20'000), address(1 << 20 | draws() % 600),
                          static_cast<int64_t>(draws() % 100'000)};
    const DirectAlignment alignment = turn % 3 == 0 ? DirectAlignment{} : kDisk;
    int64_t at = request.offset;
    for (const Piece& piece : cut(request, alignment, 16384)) {
      REQUIRE(piece.offset == at);
      REQUIRE(piece.memory == request.memory + (at - request.offset));
      REQUIRE((piece.bytes > 0 && piece.bytes <= 16384));
      if (piece.route != Route::kCached) {
        REQUIRE((piece.offset % 4096 == 0 && piece.bytes % 4096 == 0));
      }
      at += piece.bytes;
    }
    REQUIRE(at == request.offset + request.bytes);
  }
}

TEST_CASE("the rest of a short piece takes the route that it can", "[offload]") {
  const Piece piece{8192, address(4096), 16384, Route::kDirect};
  CHECK(rest_of(piece, 4096, kDisk).route == Route::kDirect);
  CHECK(rest_of(piece, 1, kDisk).route == Route::kCached);
  const Piece rest = rest_of(piece, 10'000, kDisk);
  CHECK(rest.offset == 18192);
  CHECK(rest.memory == address(4096 + 10'000));
  CHECK(rest.bytes == 6384);
}

}  // namespace ds
