// 1-bit compression arithmetic.
#include "kernels/quantize/onebit_math.h"

#include <algorithm>
#include <numeric>

#include "core/status/error.h"
#include "core/values/index.h"
#include "kernels/quantize/levels.h"

namespace ds::kernels {
namespace {

bool is_positive(std::span<const uint8_t> packed, size_t i) {
  return (packed[i / 8] >> (7 - i % 8) & 1) != 0;
}

}  // namespace

float compress_signs(std::span<const float> values, std::span<float> error,
                     std::span<uint8_t> packed) {
  DS_CHECK(values.size() == error.size() && packed.size() == sign_bytes(values.size()),
           "compress_signs: {} values, {} errors, {} bytes", values.size(), error.size(),
           packed.size());
  if (values.empty()) return 0;
  double squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    error[i] += values[i];
    squares += static_cast<double>(error[i]) * error[i];
  }
  const float scale = sign_scale(squares, narrow<int64_t>(values.size()));
  pack_signs(scale, error, packed);
  return scale;
}

void pack_signs(float scale, std::span<float> error, std::span<uint8_t> packed) {
  std::fill(packed.begin(), packed.end(), uint8_t{0});
  for (size_t i = 0; i < error.size(); ++i) {
    const bool positive = error[i] >= 0;
    if (positive) packed[i / 8] = static_cast<uint8_t>(packed[i / 8] | 128U >> i % 8);
    error[i] -= positive ? scale : -scale;
  }
}

void expand_signs(std::span<const uint8_t> packed, float scale, std::span<float> out) {
  DS_CHECK(packed.size() == sign_bytes(out.size()), "expand_signs: {} bytes for {} numbers",
           packed.size(), out.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = is_positive(packed, i) ? scale : -scale;
}

void add_signs(std::span<const uint8_t> packed, float scale, std::span<float> out) {
  DS_CHECK(packed.size() == sign_bytes(out.size()), "add_signs: {} bytes for {} numbers",
           packed.size(), out.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] += is_positive(packed, i) ? scale : -scale;
}

int64_t onebit_padded_numel(int64_t n, int64_t ranks) {
  DS_CHECK(n >= 0 && ranks > 0, "onebit: {} numbers over {} ranks", n, ranks);
  const int64_t unit = ranks * (8 * ranks / std::gcd(ranks, int64_t{8}));
  return (n + unit - 1) / unit * unit;
}

OneBitErrors OneBitErrors::zeros(int64_t padded, int64_t ranks) {
  DS_CHECK(ranks > 0 && padded >= 0 && padded % (8 * ranks) == 0,
           "onebit: a buffer of {} numbers over {} ranks, expected a multiple of {}", padded, ranks,
           8 * ranks);
  return {std::vector<float>(to_size(padded)), std::vector<float>(to_size(padded / ranks))};
}

std::vector<float> onebit_average(std::span<const std::vector<float>> buffers,
                                  std::span<OneBitErrors> errors) {
  const size_t ranks = buffers.size();
  DS_CHECK(ranks > 0 && errors.size() == ranks, "onebit: {} buffers and {} errors", ranks,
           errors.size());
  const size_t padded = errors[0].worker.size(), chunk = padded / ranks;
  std::vector<std::vector<uint8_t>> signs(ranks, std::vector<uint8_t>(sign_bytes(padded)));
  std::vector<float> scales(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    DS_CHECK(buffers[r].size() == buffers[0].size() && buffers[r].size() <= padded &&
                 errors[r].worker.size() == padded && errors[r].server.size() == chunk,
             "onebit: rank {} has {} numbers, errors for {} and {}; expected {} of {} and {}", r,
             buffers[r].size(), errors[r].worker.size(), errors[r].server.size(), buffers[0].size(),
             padded, chunk);
    std::vector<float> values = buffers[r];
    values.resize(padded);
    scales[r] = compress_signs(values, errors[r].worker, signs[r]);
  }
  std::vector<float> result(padded);
  std::vector<uint8_t> server_signs(sign_bytes(chunk));
  for (size_t r = 0; r < ranks; ++r) {
    std::vector<float> average(chunk);
    for (size_t from = 0; from < ranks; ++from) {
      add_signs(std::span(signs[from]).subspan(r * chunk / 8, chunk / 8), scales[from], average);
    }
    for (float& value : average) value /= static_cast<float>(ranks);
    const float scale = compress_signs(average, errors[r].server, server_signs);
    expand_signs(server_signs, scale, std::span(result).subspan(r * chunk, chunk));
  }
  result.resize(buffers[0].size());
  return result;
}

}  // namespace ds::kernels
