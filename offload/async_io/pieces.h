// How a request is cut (pure): into pieces of at most a block, each by the route that it can take.
// Refuses to know who moves them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "offload/async_io/io_file.h"

namespace ds {

enum class Route : uint8_t {
  kCached,   // through the page cache
  kDirect,   // past it, to and from the caller's memory
  kBounced,  // past it, by memory that is aligned; the caller's is not
};

struct Piece {
  int64_t offset = 0;  // bytes, in the file
  std::byte* memory = nullptr;
  int64_t bytes = 0;
  Route route = Route::kCached;
};

struct Request {
  int64_t offset = 0;
  std::byte* memory = nullptr;
  int64_t bytes = 0;
};

// In the order of the file, without gaps. Alignment 0: no direct I/O. Only whole units of
// `alignment.offset` are direct; what is left at the two ends is cached. `block_size` is a multiple
// of `alignment.offset`, or smaller: then a block is one unit.
std::vector<Piece> cut(const Request& request, const DirectAlignment& alignment,
                       int64_t block_size);

// What is left of a piece of which `moved` bytes have arrived, fewer than it has.
Piece rest_of(const Piece& piece, int64_t moved, const DirectAlignment& alignment);

}  // namespace ds
