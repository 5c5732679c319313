#include "launcher/decide/node_pool.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

// Ranks of one host are consecutive, so the size of a host is known when the next one begins.
void number_within_hosts(std::vector<RankPlacement>& ranks) {
  for (size_t first = 0; first < ranks.size();) {
    size_t end = first;
    while (end < ranks.size() && ranks[end].host == ranks[first].host) {
      ranks[end].local_rank = static_cast<int>(end - first);
      ++end;
    }
    for (size_t rank = first; rank < end; ++rank) {
      ranks[rank].local_size = static_cast<int>(end - first);
    }
    first = end;
  }
}

}  // namespace

NodePool::NodePool(Options options) : options_(std::move(options)) {
  const auto nodes = narrow<int>(options_.nodes.size());
  if (options_.spares < 0 || options_.spares >= nodes) {
    throw UsageError(
        fmt::format("--spares {}: {} nodes leave none to train on", options_.spares, nodes));
  }
  if (options_.min_nodes == 0) {
    options_.min_nodes = nodes - options_.spares;
  }
  if (options_.min_nodes > nodes) {
    throw UsageError(
        fmt::format("--nodes: at least {} are wanted, there are {}", options_.min_nodes, nodes));
  }
  first_ranks_ = narrow<int>(all_places().size());
  if (options_.fits) {
    while (first_ranks_ > 0 && !options_.fits(first_ranks_)) --first_ranks_;
  }
}

bool NodePool::add(PoolNode node) {
  if (!may_change()) {
    throw Unsupported(
        "the size of this run is fixed; start it with --nodes MIN:MAX or an elasticity section");
  }
  const bool known = std::ranges::any_of(
      options_.nodes, [&](const PoolNode& other) { return other.host == node.host; });
  if (known) return false;
  lost_.insert(node.host);
  options_.nodes.push_back(std::move(node));
  return true;
}

int NodePool::nodes_left() const {
  return static_cast<int>(std::ranges::count_if(
      options_.nodes, [&](const PoolNode& node) { return !lost_.contains(node.host); }));
}

std::vector<const PoolNode*> NodePool::nodes_in_use() const {
  size_t wanted = options_.nodes.size() - to_size(options_.spares);
  if (options_.max_nodes > 0) wanted = std::min(wanted, to_size(options_.max_nodes));
  std::vector<const PoolNode*> out;
  for (const PoolNode& node : options_.nodes) {
    if (out.size() < wanted && !lost_.contains(node.host)) out.push_back(&node);
  }
  return out;
}

std::vector<RankPlacement> NodePool::all_places() const {
  std::vector<RankPlacement> out;
  for (const PoolNode* node : nodes_in_use()) {
    for (const int64_t slot : node->slots) {
      out.push_back({.host = node->host, .local_rank = 0, .local_size = 1, .slot = slot});
    }
  }
  return out;
}

bool NodePool::fits(int ranks) const {
  return options_.fits ? options_.fits(ranks) : ranks == first_ranks_;
}

std::optional<std::vector<RankPlacement>> NodePool::next_world() const {
  if (nodes_left() < options_.min_nodes) {
    return std::nullopt;
  }
  std::vector<RankPlacement> ranks = all_places();
  while (!ranks.empty() && !fits(narrow<int>(ranks.size()))) ranks.pop_back();
  if (ranks.empty()) {
    return std::nullopt;
  }
  number_within_hosts(ranks);
  return ranks;
}

std::string NodePool::why_not() const {
  if (nodes_left() < options_.min_nodes) {
    return fmt::format("{} of {} nodes are left, at least {} are needed", nodes_left(),
                       options_.nodes.size(), options_.min_nodes);
  }
  return fmt::format("no world that the batch sizes allow fits on the {} ranks that are left{}",
                     all_places().size(),
                     options_.unit == 1
                         ? ""
                         : fmt::format("; it is a multiple of the {} ranks that work on one sample",
                                       options_.unit));
}

}  // namespace ds
