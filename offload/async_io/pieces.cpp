#include "offload/async_io/pieces.h"

#include <algorithm>

#include "core/memory/rounding.h"

namespace ds {

namespace {

bool is_aligned(const std::byte* memory, int64_t alignment) {
  return reinterpret_cast<uintptr_t>(memory) % static_cast<uintptr_t>(alignment) == 0;
}

// [begin, end) of the file.
struct Part {
  int64_t begin;
  int64_t end;
  Route route;
};

void append(const Part& part, const Request& request, int64_t block_size,
            std::vector<Piece>& pieces) {
  for (int64_t at = part.begin; at < part.end; at += block_size) {
    pieces.push_back({at, request.memory + (at - request.offset),
                      std::min(block_size, part.end - at), part.route});
  }
}

}  // namespace

std::vector<Piece> cut(const Request& request, const DirectAlignment& alignment,
                       int64_t block_size) {
  std::vector<Piece> pieces;
  const int64_t end = request.offset + request.bytes;
  const int64_t unit = alignment.offset;
  const int64_t first = unit == 0 ? end : round_up(request.offset, unit);
  const int64_t last = unit == 0 ? end : end / unit * unit;
  if (first >= last) {
    append({request.offset, end, Route::kCached}, request, block_size, pieces);
    return pieces;
  }
  const bool aligned = is_aligned(request.memory + (first - request.offset), alignment.memory);
  const Route middle = aligned ? Route::kDirect : Route::kBounced;
  append({request.offset, first, Route::kCached}, request, block_size, pieces);
  append({first, last, middle}, request, std::max(block_size / unit, int64_t{1}) * unit, pieces);
  append({last, end, Route::kCached}, request, block_size, pieces);
  return pieces;
}

Piece rest_of(const Piece& piece, int64_t moved, const DirectAlignment& alignment) {
  Piece rest{piece.offset + moved, piece.memory + moved, piece.bytes - moved, piece.route};
  if (piece.route == Route::kCached) return rest;
  // The kernel may stop anywhere, the end of a file for example.
  const bool direct = rest.offset % alignment.offset == 0 && rest.bytes % alignment.offset == 0;
  if (!direct) {
    rest.route = Route::kCached;
  } else if (!is_aligned(rest.memory, alignment.memory)) {
    rest.route = Route::kBounced;
  }
  return rest;
}

}  // namespace ds
