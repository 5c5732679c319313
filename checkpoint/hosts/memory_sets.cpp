#include "checkpoint/hosts/memory_sets.h"

#include <algorithm>

#include "checkpoint/format.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

std::vector<std::vector<int>> ranks_by_host(std::span<const int> host_of) {
  std::vector<std::vector<int>> out;
  for (size_t rank = 0; rank < host_of.size(); ++rank) {
    const auto host = to_size(host_of[rank]);
    if (host >= out.size()) out.resize(host + 1);
    out[host].push_back(static_cast<int>(rank));
  }
  return out;
}

}  // namespace

std::vector<WholeSet> whole_sets(std::span<const HostFile> kept) {
  std::vector<WholeSet> sets;
  for (const HostFile& one : kept) {
    const KeptFile& file = one.file;
    auto set = std::ranges::find_if(sets, [&](const WholeSet& other) {
      return other.id == file.set && other.buffer == file.buffer;
    });
    if (set == sets.end()) {
      const auto files = to_size(std::max(0, file.set.files));
      set = sets.insert(set, {file.set, file.buffer, std::vector<WholeSet::Place>(files)});
    }
    if (file.rank < 0 || file.rank >= file.set.files) continue;
    WholeSet::Place& place = nth(set->files, file.rank);
    const bool same = place.hosts.empty() || (place.bytes == file.bytes && place.tail == file.tail);
    if (!same) continue;  // a copy that is none
    place.bytes = file.bytes;
    place.tail = file.tail;
    const auto at = std::ranges::lower_bound(place.hosts, one.host);
    if (at == place.hosts.end() || *at != one.host) place.hosts.insert(at, one.host);
  }
  std::erase_if(sets, [](const WholeSet& set) {
    return set.files.empty() ||
           std::ranges::any_of(set.files, [](const auto& place) { return place.hosts.empty(); });
  });
  std::ranges::stable_sort(sets, std::ranges::greater(),
                           [](const WholeSet& set) { return age_of(set.id); });
  return sets;
}

std::optional<int64_t> newest_kept_step(std::span<const HostFile> kept) {
  std::optional<int64_t> newest;
  for (const HostFile& one : kept) {
    newest = std::max(newest.value_or(one.file.set.step), one.file.set.step);
  }
  return newest;
}

std::vector<int> hosts_of_ranks(std::span<const int> local_ranks) {
  std::vector<int> out;
  int host = -1;
  for (const int local_rank : local_ranks) {
    if (local_rank == 0) ++host;
    DS_CHECK(host >= 0, "hosts of ranks: rank 0 has local rank {}, expected 0", local_rank);
    out.push_back(host);
  }
  return out;
}

std::vector<PeerCopy> plan_peer_copies(std::span<const int> host_of) {
  const std::vector<std::vector<int>> hosts = ranks_by_host(host_of);
  std::vector<PeerCopy> copies;
  if (hosts.size() < 2) return copies;
  for (size_t first = 0; first < 2; ++first) {  // even hosts send, then odd ones
    for (size_t host = first; host < hosts.size(); host += 2) {
      const std::vector<int>& next = hosts[(host + 1) % hosts.size()];
      for (size_t i = 0; i < hosts[host].size(); ++i) {
        copies.push_back({hosts[host][i], next[i % next.size()]});
      }
    }
  }
  return copies;
}

int sender_of(const WholeSet::Place& place, int file, std::span<const int> host_of) {
  DS_CHECK(!place.hosts.empty(), "nobody keeps file {}", file);
  const std::vector<std::vector<int>> hosts = ranks_by_host(host_of);
  const auto index = to_size(file);
  const std::vector<int>& ranks = hosts.at(to_size(place.hosts[index % place.hosts.size()]));
  return ranks[index % ranks.size()];
}

}  // namespace ds
