// Newton-Schulz iterations by bf16 products; see newton_schulz_products.h.
//
// A product c[i, j] = sum over k of a(i, k) b(j, k) takes both factors as panels of 32 rows, of
// pairs along k. Of x, wide or tall, "rows" is the smaller side: there are two packings of it, one
// with pairs along its longer side and one with pairs along the smaller. A symmetric matrix has
// one. A block of a product is stored in both packings at once, since both are at hand where its
// rows are in registers: transposed, and two rows interleaved.
#include "kernels/optimizer/newton_schulz_products.h"

#include <algorithm>

#include "core/status/error.h"
#include "kernels/cpu/simd.h"

namespace ds::kernels::detail {
namespace {

// The smaller side's squares are r, z, q and t; as large as x are its two packings, and the next x.
constexpr int64_t kSquares = 4, kWholes = 3;
constexpr int64_t kUnit = 64;  // rows and columns of a block

int64_t padded(int64_t n) { return (n + kUnit - 1) / kUnit * kUnit; }

}  // namespace

bool makes_bf16_iterations() { return prefers_bf16_dots(); }

int64_t bf16_iteration_numel(int64_t rows, int64_t columns) {
  const int64_t side = padded(std::min(rows, columns));
  return kWholes * side * padded(std::max(rows, columns)) + kSquares * side * side;
}

OpCost bf16_iteration_cost(NewtonSchulzForm form, const Bf16Iteration& args) {
  const auto side = static_cast<double>(std::min(args.rows, args.columns));
  const auto numel = static_cast<double>(args.x.numel());
  constexpr int kTimesAnew =
      (kNewtonSchulzSteps + kNewtonSchulzStepsOfGram - 1) / kNewtonSchulzStepsOfGram;
  const bool by_gram = form == NewtonSchulzForm::kGram;
  const int of_x = by_gram ? kTimesAnew : kNewtonSchulzSteps;
  // In Gram form n steps take n squares, n - 1 times two products for the next r, and n - 1 for q.
  const int of_squares = by_gram ? 4 * kNewtonSchulzSteps - 3 * kTimesAnew : kNewtonSchulzSteps;
  return {.flops = side * (3 * of_x * numel + of_squares * side * side),
          .bytes = 4 * static_cast<double>(args.x.bytes())};
}

}  // namespace ds::kernels::detail

#if defined(__x86_64__)

#include <atomic>
#include <cmath>
#include <utility>
#include <vector>

#include "core/tasks/thread_pool.h"
#include "kernels/cpu/bf16_tiles.inl"

DS_BF16_DOTS_BEGIN
namespace ds::kernels {
namespace {

using namespace bf16_dots;

constexpr int64_t kSubRows = 16;       // of a block, in registers while it is finished
constexpr int64_t kDepthAtOnce = 128;  // pairs: a panel's slice and a tile's fit into 32 KiB

// Panels of kPanel rows, each [depth][kPanel]; rows and pairs are whole blocks, zero beyond the
// matrix.
struct Packed {
  Pair* pairs = nullptr;
  int64_t depth = 0;
  Pair* at(int64_t row, int64_t pair) const {
    return pairs + row / kPanel * kPanel * depth + pair * kPanel + row % kPanel;
  }
};

enum class Result { kWhole, kSymmetric };

// c = factor a b' + plus other + diagonal I, of a [rows, .] and b [columns, .].
struct Product {
  int64_t rows = 0, columns = 0;
  Packed a = {}, b = {};
  Result result = Result::kWhole;
  float factor = 1, plus = 0, diagonal = 0;
  Packed other = {};  // [columns, rows / 2]: packed as `columns_of`
  Packed rows_of = {},
         columns_of = {};  // receive c with pairs along its rows and along its columns
  BF16* plain = nullptr;   // or this one does, [rows, columns]
};

struct Block {
  int64_t row, column;
};

std::vector<Block> blocks_of(int64_t rows, int64_t columns, Result result) {
  std::vector<Block> blocks;
  for (int64_t row = 0; row < rows; row += kBlock) {
    const int64_t end = result == Result::kSymmetric ? row + 1 : columns;
    for (int64_t column = 0; column < end; column += kBlock) blocks.push_back({row, column});
  }
  return blocks;
}

void for_each_block(Stream& stream, const std::vector<Block>& blocks, auto&& work) {
  std::atomic<size_t> next{0};
  stream.pool().for_each_thread([&](int /*index*/) {
    alignas(64) float c[kBlock * kBlock];
    for (size_t i = next.fetch_add(1); i < blocks.size(); i = next.fetch_add(1)) work(blocks[i], c);
  });
}

bool is_on_diagonal(const Product& p, const Block& block) {
  return p.result == Result::kSymmetric && block.row == block.column;
}

// In a block on the diagonal, whole tiles above it receive what lies below.
void mirror(float* c) {
  for (int64_t j = kPanel; j < kBlock; ++j) {
    for (int64_t i = 0; i < j / kPanel * kPanel; ++i) c[i * kBlock + j] = c[j * kBlock + i];
  }
}

void multiply_block(const Product& p, const Block& block, float* c) {
  static_assert(kPanel % kTileRows == 0);
  const int64_t depth = p.a.depth;
  const bool halves = is_on_diagonal(p, block);
  for (int64_t k = 0; k < depth; k += kDepthAtOnce) {
    const int64_t count = std::min(kDepthAtOnce, depth - k);
    const TileWrite write = k == 0 ? TileWrite::kSet : TileWrite::kAdd;
    for (int64_t j = 0; j < kBlock; j += kPanel) {
      for (int64_t i = halves ? j : 0; i < kBlock; i += kTileRows) {
        multiply_tile<1, kPanel>(p.a.at(block.row + i, k), p.b.at(block.column + j, k), count,
                                 c + i * kBlock + j, kBlock, write);
      }
    }
  }
  if (halves) mirror(c);
}

// Rows i and i + 1 of c become what the product is, 32 columns from j on, and are rounded.
HWY_INLINE void finish_two_rows(const Product& p, const Block& block, const float* c, int64_t i,
                                int64_t j, __m512i& first, __m512i& second) {
  const __m512 factor = _mm512_set1_ps(p.factor), plus = _mm512_set1_ps(p.plus);
  __m512 upper[2], lower[2];
#pragma GCC unroll 2
  for (int64_t half = 0; half < 2; ++half) {
    const float* from = c + i * kBlock + j + half * kLanes;
    upper[half] = _mm512_mul_ps(_mm512_load_ps(from), factor);
    lower[half] = _mm512_mul_ps(_mm512_load_ps(from + kBlock), factor);
    if (p.plus == 0) continue;
    const __m512i both =
        _mm512_load_si512(p.other.at(block.column + j, (block.row + i) / 2) + half * kLanes);
    const __m512i high = _mm512_and_si512(both, _mm512_set1_epi32(-65536));
    upper[half] =
        _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(both, 16)), plus, upper[half]);
    lower[half] = _mm512_fmadd_ps(_mm512_castsi512_ps(high), plus, lower[half]);
  }
  first = round_both(upper[0], upper[1]);
  second = round_both(lower[0], lower[1]);
}

void add_to_diagonal(const Product& p, const Block& block, float* c) {
  const int64_t end = std::min(kBlock, p.rows - block.row);
  for (int64_t i = 0; i < end; ++i) c[i * kBlock + i] += p.diagonal / p.factor;
}

// Two rows of 32 columns become the pairs of two vectors along the columns.
HWY_INLINE void store_interleaved(__m512i first, __m512i second, Pair* to) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                       39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  _mm512_store_si512(to, _mm512_permutex2var_epi16(first, low, second));
  _mm512_store_si512(to + kLanes, _mm512_permutex2var_epi16(first, high, second));
}

void store_plain(const Product& p, const Block& at, const __m512i (&rows)[kSubRows]) {
  const __mmask32 there = first_halves(p.columns - at.column);
  for (int64_t i = 0; i < std::min(kSubRows, p.rows - at.row); ++i) {
    _mm512_mask_storeu_epi16(p.plain + (at.row + i) * p.columns + at.column, there, rows[i]);
  }
}

void finish_block(const Product& p, const Block& block, float* c) {
  const bool on_diagonal = is_on_diagonal(p, block);
  if (on_diagonal && p.diagonal != 0) add_to_diagonal(p, block, c);
  for (int64_t i = 0; i < kBlock; i += kSubRows) {
    for (int64_t j = 0; j < kBlock; j += kPanel) {
      const Block at{block.row + i, block.column + j};
      __m512i rows[kSubRows];
#pragma GCC unroll 8
      for (int64_t r = 0; r < kSubRows; r += 2) {
        finish_two_rows(p, block, c, i + r, j, rows[r], rows[r + 1]);
      }
      if (p.plain != nullptr) {
        store_plain(p, at, rows);
        continue;
      }
#pragma GCC unroll 8
      for (int64_t r = 0; r < kSubRows; r += 2) {
        store_interleaved(rows[r], rows[r + 1], p.columns_of.at(at.column, (at.row + r) / 2));
      }
      if (on_diagonal) continue;
      transpose(rows);
#pragma GCC unroll 16
      for (int64_t k = 0; k < kLanes; ++k) {
        _mm512_store_si512(p.rows_of.at(at.row, at.column / 2 + k), rows[k]);
      }
    }
  }
}

void multiply(Stream& stream, const Product& p) {
  for_each_block(stream, blocks_of(p.rows, p.columns, p.result), [&](const Block& block, float* c) {
    multiply_block(p, block, c);
    finish_block(p, block, c);
  });
}

// x as it lies in memory, packed both ways, each number times `factor`.
void pack(Stream& stream, const BF16* x, const Product& p) {
  for_each_block(stream, blocks_of(p.rows, p.columns, Result::kWhole),
                 [&](const Block& block, float* c) {
                   for (int64_t i = 0; i < kBlock; ++i) {
                     const bool there = block.row + i < p.rows;
                     const BF16* row = there ? x + (block.row + i) * p.columns + block.column : x;
                     for (int64_t j = 0; j < kBlock; j += kLanes) {
                       const int64_t count = there ? p.columns - block.column - j : 0;
                       const __m256i bits =
                           _mm256_maskz_loadu_epi16(first_floats(count), count > 0 ? row + j : x);
                       const __m512i wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16);
                       _mm512_store_ps(c + i * kBlock + j, _mm512_castsi512_ps(wide));
                     }
                   }
                   finish_block(p, block, c);
                 });
}

// An iteration's matrices. x is [side, length], whichever way it lies in memory.
class Iteration {
 public:
  Iteration(Stream& stream, const detail::Bf16Iteration& args)
      : stream_(stream),
        plain_(args.x.data<BF16>()),
        is_wide_(args.rows <= args.columns),
        side_(std::min(args.rows, args.columns)),
        length_(std::max(args.rows, args.columns)) {
    const int64_t side = round_up(side_, kBlock), length = round_up(length_, kBlock);
    Pair* next = reinterpret_cast<Pair*>(args.room.data<BF16>());
    const auto take = [&](int64_t rows, int64_t columns) {
      Pair* const start = std::exchange(next, next + rows * columns / 2);
      return Packed{start, columns / 2};
    };
    along_ = take(side, length);
    across_ = take(length, side);
    spare_ = take(length, side);
    for (Packed* one : {&r, &z, &q, &t}) *one = take(side, side);
    const auto factor = static_cast<float>(1 / (std::sqrt(*args.squares.data<double>()) + 1e-7));
    pack(stream_, plain_,
         in_memory({.factor = factor,
                    .rows_of = is_wide_ ? along_ : across_,
                    .columns_of = is_wide_ ? across_ : along_}));
  }

  // x x'.
  void gram(const Packed& to) const { symmetric({.a = along_, .b = along_}, to); }

  // factor a b + plus other + diagonal I, of symmetric matrices that are polynomials of one.
  void symmetric(Product p, const Packed& to) const {
    p.rows = p.columns = side_;
    p.result = Result::kSymmetric;
    p.rows_of = p.columns_of = to;
    multiply(stream_, p);
  }

  // x = by x + plus x.
  void apply(const Packed& by, float plus) {
    multiply(stream_, {.rows = side_,
                       .columns = length_,
                       .a = by,
                       .b = across_,
                       .plus = plus,
                       .other = across_,
                       .rows_of = along_,
                       .columns_of = spare_});
    std::swap(across_, spare_);
  }
  // The same, into memory as x lies there.
  void finish(const Packed& by, float plus) const {
    const Packed same = is_wide_ ? across_ : along_;
    multiply(stream_, in_memory({.a = is_wide_ ? by : across_,
                                 .b = is_wide_ ? across_ : by,
                                 .plus = plus,
                                 .other = same,
                                 .plain = plain_}));
  }

  Packed r, z, q, t;  // of `side` rows, symmetric

 private:
  Product in_memory(Product p) const {
    p.rows = is_wide_ ? side_ : length_;
    p.columns = is_wide_ ? length_ : side_;
    return p;
  }

  Stream& stream_;
  BF16* const plain_;
  const bool is_wide_;
  const int64_t side_, length_;
  Packed along_, across_, spare_;  // pairs along the longer side, and along the smaller
};

}  // namespace

namespace detail {

// r = x x', z = b r + c r r, x = a x + z x.
void bf16_iteration_standard(Stream& stream, const Bf16Iteration& args) {
  constexpr Quintic k = kNewtonSchulzQuintic;
  Iteration in(stream, args);
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    in.gram(in.r);
    in.symmetric({.a = in.r, .b = in.r, .factor = k.c, .plus = k.b, .other = in.r}, in.z);
    const bool last = step + 1 == kNewtonSchulzSteps;
    last ? in.finish(in.z, k.a) : in.apply(in.z, k.a);
  }
}

// r = x x' at the start of a stretch of steps; in each z = a I + b r + c r r, q = z q and
// r = z r z, as polynomials of r commute; at its end x = q x. After the first step, whose z is q,
// a I is not rounded with the rest of z, but a times what z multiplies is added.
void bf16_iteration_gram(Stream& stream, const Bf16Iteration& args) {
  constexpr Quintic k = kNewtonSchulzQuintic;
  Iteration in(stream, args);
  for (int first = 0; first < kNewtonSchulzSteps; first += kNewtonSchulzStepsOfGram) {
    const int end = std::min(first + kNewtonSchulzStepsOfGram, kNewtonSchulzSteps);
    in.gram(in.r);
    for (int step = first; step < end; ++step) {
      const float whole = step == first ? k.a : 0, rest = k.a - whole;
      in.symmetric(
          {.a = in.r, .b = in.r, .factor = k.c, .plus = k.b, .diagonal = whole, .other = in.r},
          in.z);
      if (step + 1 < end) {
        in.symmetric({.a = in.z, .b = in.r, .plus = rest, .other = in.r}, in.t);
        in.symmetric({.a = in.z, .b = in.t, .plus = rest, .other = in.t}, in.r);
      }
      if (step > first) in.symmetric({.a = in.z, .b = in.q, .plus = rest, .other = in.q}, in.t);
      std::swap(in.q, step > first ? in.t : in.z);
    }
    end < kNewtonSchulzSteps ? in.apply(in.q, 0) : in.finish(in.q, 0);
  }
}

}  // namespace detail
}  // namespace ds::kernels
DS_BF16_DOTS_END

#else

namespace ds::kernels::detail {

void bf16_iteration_standard(Stream&, const Bf16Iteration&) {
  throw InternalError("newton_schulz: no bf16 products on this machine");
}
void bf16_iteration_gram(Stream& stream, const Bf16Iteration& args) {
  bf16_iteration_standard(stream, args);
}

}  // namespace ds::kernels::detail

#endif
