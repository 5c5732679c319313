#include "checkpoint/file_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "core/values/index.h"

namespace ds {
namespace {

// "2, 5 to 7"
std::string in_words(std::span<const int> rising) {
  std::string out;
  for (size_t i = 0; i < rising.size();) {
    size_t last = i;
    while (last + 1 < rising.size() && rising[last + 1] == rising[last] + 1) ++last;
    if (!out.empty()) out += ", ";
    out +=
        last == i ? fmt::format("{}", rising[i]) : fmt::format("{} to {}", rising[i], rising[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace

std::string files_in_words(const Manifest& manifest, std::span<const int> ranks) {
  std::vector<int> rising(ranks.begin(), ranks.end());
  std::ranges::sort(rising);
  std::string out =
      fmt::format("the file{} of rank{} {} of {}", rising.size() == 1 ? "" : "s",
                  rising.size() == 1 ? "" : "s", in_words(rising), manifest.files.size());
  std::set<std::string> hosts;
  for (const int rank : rising) {
    if (to_size(rank) < manifest.hosts.size()) {
      hosts.insert(nth(manifest.hosts, rank));
    }
  }
  if (!hosts.empty()) out += fmt::format(" (saved on {})", fmt::join(hosts, ", "));
  return out;
}

}  // namespace ds
