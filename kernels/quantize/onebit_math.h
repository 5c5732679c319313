// 1-bit compression with error feedback (pure): signs and one scale per buffer, what compression
// lost is added back the next time. fp32; sign(x) is +1 for x >= 0, else -1. Source: Tang et al.,
// "1-bit Adam" (arXiv 2102.02888).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ds::kernels {

// Bytes that the signs of n numbers take: eight to a byte, the first in the highest bit, the tail
// padded with 0 bits.
constexpr size_t sign_bytes(size_t n) { return (n + 7) / 8; }

// c = values + error; scale = norm2(c) / sqrt(n); packs the signs of c into `packed`
// (sign_bytes(n) bytes), leaves c - scale * sign(c) in `error` and returns the scale.
// Numbers that are not finite make the scale not finite, and with it all of `error`; the sign of
// NaN is -1.
float compress_signs(std::span<const float> values, std::span<float> error,
                     std::span<uint8_t> packed);
// Its second half, when the scale of c, which is in `error`, is known.
void pack_signs(float scale, std::span<float> error, std::span<uint8_t> packed);

// out[i] = scale * sign[i], and out[i] += scale * sign[i].
void expand_signs(std::span<const uint8_t> packed, float scale, std::span<float> out);
void add_signs(std::span<const uint8_t> packed, float scale, std::span<float> out);

// Numbers a buffer of n is zero-padded to for 1-bit all-reduce over `ranks`: the smallest multiple
// of ranks * 8 * ranks / gcd(ranks, 8), so that every rank's chunk is whole bytes.
int64_t onebit_padded_numel(int64_t n, int64_t ranks);

// What one rank remembers between rounds; zeros at the start.
struct OneBitErrors {
  std::vector<float> worker;  // padded buffer
  std::vector<float> server;  // padded / ranks: this rank's chunk

  static OneBitErrors zeros(int64_t padded, int64_t ranks);
};

// One round of 1-bit all-reduce with all ranks in one address space, in the order the
// communicator's decorator does it: every rank compresses its buffer with its worker error; rank r
// averages chunk r, compresses it again with its server error; all get server scale * sign.
// buffers: one per rank, of equal length n <= padded. Returns the n averaged numbers, the same on
// every rank.
std::vector<float> onebit_average(std::span<const std::vector<float>> buffers,
                                  std::span<OneBitErrors> errors);

}  // namespace ds::kernels
