// The figures of the communication log.
#include "comm/traffic_figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

namespace {

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, op) != names.end();
}

}  // namespace

Bandwidth collective_bandwidth(std::string_view op, int64_t bytes, double duration_ms, int ranks) {
  DS_CHECK(duration_ms > 0 && ranks >= 1, "bandwidth: {} bytes in {} ms over {} ranks", bytes,
           duration_ms, ranks);
  // Bytes per millisecond to bits per nanosecond, which is Gbit/s.
  constexpr double kToGbit = 8 / 1e6;
  const double n = ranks;
  const double others = (n - 1) / n;
  const double rate = static_cast<double>(bytes) / duration_ms * kToGbit;
  if (is_one_of(op, {"all_to_all", "all_to_all_single"})) return {rate, rate * others};
  if (is_one_of(op, {"all_gather", "all_gather_into_tensor", "reduce_scatter",
                     "reduce_scatter_tensor"})) {
    return {rate * n, rate * n * others};
  }
  if (is_one_of(op, {"all_reduce", "all_reduce_coalesced", "inference_all_reduce"})) {
    return {2 * rate, 2 * rate * others};
  }
  DS_CHECK(is_one_of(op, {"send", "recv", "isend", "irecv", "broadcast", "reduce", "gather",
                          "scatter", "barrier"}),
           "bandwidth: unknown collective {}", op);
  return {rate, rate};
}

std::string size_text(double bytes) {
  constexpr std::array<std::string_view, 9> kUnits = {"B",  "KB", "MB", "GB", "TB",
                                                      "PB", "EB", "ZB", "YB"};
  DS_CHECK(bytes >= 0, "size: {} bytes", bytes);
  if (bytes == 0) return "0B";
  const double power = std::clamp(std::floor(std::log(bytes) / std::log(1024.0)), 0.0,
                                  static_cast<double>(kUnits.size() - 1));
  std::string text = fmt::format("{:.2f}", bytes / std::pow(1024.0, power));
  if (text.ends_with('0')) text.pop_back();
  return fmt::format("{} {}", text, kUnits.at(static_cast<size_t>(power)));
}

double trimmed_mean(std::span<const double> values, double fraction) {
  DS_CHECK(fraction >= 0 && fraction <= 1, "trimmed mean: fraction {} is outside 0..1", fraction);
  if (values.empty()) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  // Halves round to even, as in the reference.
  const auto cut =
      static_cast<size_t>(std::nearbyint(static_cast<double>(sorted.size()) * fraction));
  if (2 * cut >= sorted.size()) return std::numeric_limits<double>::quiet_NaN();
  const auto kept = std::span(sorted).subspan(cut, sorted.size() - 2 * cut);
  return std::accumulate(kept.begin(), kept.end(), 0.0) / static_cast<double>(kept.size());
}

}  // namespace ds
