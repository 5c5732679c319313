// 1-bit compression on the CPU: the spans of onebit_math.h, vectorised, by whole bytes of signs.
#include "kernels/quantize/signs_cpu.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/memory/rounding.h"
#include "core/values/index.h"
#include "kernels/elementwise/spans.h"
#include "kernels/quantize/code_spans.h"
#include "kernels/quantize/levels.h"
#include "kernels/reduce/reduce_cpu.h"

namespace ds::kernels::detail {
namespace {

constexpr int64_t kSignChunk = 4096;  // whole bytes of signs

// A thread takes the last piece of its share first: the cache still has what a pass in order has
// gone over just now. A piece is long enough for the processor to see what comes next.
constexpr int64_t kPiece = 64 * kSignChunk;

// use(first, count, their bytes) on chunks of `numel` numbers.
template <class Use>
void for_chunks(Stream& stream, int64_t numel, const Tensor& signs, const Use& use) {
  const auto piece = [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kSignChunk) {
      const int64_t count = std::min(kSignChunk, end - first);
      use(first, count, std::span(signs.data<uint8_t>() + first / 8, sign_bytes(to_size(count))));
    }
  };
  stream.pool().parallel_for(numel, kSignChunk, [&](int64_t begin, int64_t end) {
    const int64_t pieces = divide_up(end - begin, kPiece);
    for (int64_t i = pieces - 1; i >= 0; --i) {
      piece(begin + i * kPiece, std::min(end, begin + (i + 1) * kPiece));
    }
  });
}

std::span<float> part(const Tensor& tensor, int64_t first, int64_t count) {
  return {tensor.data<float>() + first, to_size(count)};
}

}  // namespace

void add_and_square(Stream& stream, const Tensor& values, const Tensor& error,
                    const Tensor& squares) {
  *squares.data<double>() = sum_blocks(stream, error.numel(), [&](int64_t begin, int64_t end) {
    return add_and_square_span(part(values, begin, end - begin), part(error, begin, end - begin));
  });
}

void compress_signs_cpu(Stream& stream, const Tensor& squares, const CompressSignsArgs& args) {
  const int64_t numel = args.error.numel();
  const float scale = sign_scale(*squares.data<double>(), numel);
  *args.scale.data<float>() = scale;
  for_chunks(stream, numel, args.signs,
             [&](int64_t first, int64_t count, std::span<uint8_t> signs) {
               pack_signs_span(scale, part(args.error, first, count), signs);
             });
}

void expand_signs_cpu(Stream& stream, const Tensor& signs, const Tensor& scale, const Tensor& y) {
  const float size = *scale.data<float>();
  const auto bytes_each = static_cast<int64_t>(size_of(y.dtype()));
  for_chunks(stream, y.numel(), signs, [&](int64_t first, int64_t count, std::span<uint8_t> of) {
    if (y.dtype() == DType::kF32) return expand_signs_span(of, size, part(y, first, count));
    std::array<float, kSignChunk> numbers;
    expand_signs_span(of, size, std::span(numbers).first(to_size(count)));
    cast_span(numbers.data(), DType::kF32, static_cast<std::byte*>(y.raw()) + first * bytes_each,
              y.dtype(), count);
  });
}

void add_signs_cpu(Stream& stream, const Tensor& signs, const Tensor& scale, const Tensor& y) {
  const float size = *scale.data<float>();
  for_chunks(stream, y.numel(), signs, [&](int64_t first, int64_t count, std::span<uint8_t> of) {
    add_signs_span(of, size, part(y, first, count));
  });
}

}  // namespace ds::kernels::detail
