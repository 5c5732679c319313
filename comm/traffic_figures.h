// The figures of the communication log (pure): algorithm and bus bandwidth of a collective, sizes
// as people read them, and averages without outliers. Formulas as in nccl-tests' PERFORMANCE.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ds {

struct Bandwidth {
  double algorithm = 0;  // Gbit/s
  double bus = 0;        // Gbit/s that each link carries
};

// `op` by its log name (all_reduce, all_gather_into_tensor, send, ...), `bytes` of one rank's
// message, n ranks.
//   all_to_all:                 s/t and s/t (n-1)/n
//   all_gather, reduce_scatter: the same with s n
//   all_reduce:                 2 s/t and s/t 2 (n-1)/n
//   others:                     s/t for both
// Throws InternalError for an unknown name, a duration that is not positive, or less than one rank.
Bandwidth collective_bandwidth(std::string_view op, int64_t bytes, double duration_ms, int ranks);

// "1.07 KB": powers of 1024, at most two decimals, at least one; "0B" for nothing. Sums over ranks
// and steps pass 64 bits, hence the double. Throws InternalError below 0.
std::string size_text(double bytes);

// Mean of the sorted values without round(n * fraction) at each end; 0 without values, not a
// number when the fraction leaves none. Throws InternalError when the fraction is outside 0..1.
double trimmed_mean(std::span<const double> values, double fraction);

}  // namespace ds
