#include "data/supervised/packing.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

std::vector<std::vector<int64_t>> pack_best_fit(std::span<const int64_t> lengths,
                                                const PackingRoom& room) {
  DS_CHECK(room.tokens > 0 && room.window > 0, "packing: {} tokens, a window of {}", room.tokens,
           room.window);
  std::vector<std::vector<int64_t>> bins;
  for (int64_t first = 0; first < std::ssize(lengths); first += room.window) {
    std::vector<int64_t> order(to_size(std::min(room.window, std::ssize(lengths) - first)));
    std::iota(order.begin(), order.end(), first);
    std::ranges::stable_sort(
        order, [&](int64_t a, int64_t b) { return nth(lengths, a) > nth(lengths, b); });
    std::set<std::pair<int64_t, int64_t>> open;  // {tokens left, bin}
    for (const int64_t example : order) {
      const int64_t length = nth(lengths, example);
      DS_CHECK(length > 0 && length <= room.tokens, "packing: an example of {} tokens, room for {}",
               length, room.tokens);
      auto fits = open.lower_bound({length, 0});
      if (fits == open.end()) {
        fits = open.insert({room.tokens, std::ssize(bins)}).first;
        bins.emplace_back();
      }
      const auto [left, bin] = *fits;
      open.erase(fits);
      nth(bins, bin).push_back(example);
      if (left > length) open.insert({left - length, bin});
    }
  }
  return bins;
}

}  // namespace ds
