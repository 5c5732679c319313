// Which nodes a run may use and where the ranks of its next epoch go (pure): nodes in the order of
// the hostfile, some held back as spares, some lost. It refuses to know why a node is lost.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/decide/placement.h"

namespace ds {

struct PoolNode {
  std::string host;            // as the hostfile calls it; empty: this machine
  std::vector<int64_t> slots;  // one rank each
};

class NodePool {
 public:
  struct Options {
    std::vector<PoolNode> nodes;
    int spares = 0;     // nodes at the end of the list that wait until another one is lost
    int min_nodes = 0;  // 0: all that are no spares
    // In use at once, of those that are added later, too; 0: all that are no spares.
    int max_nodes = 0;
    // Whether the job can be trained by so many ranks. Not set: only by as many as in the first
    // epoch.
    std::function<bool(int ranks)> fits;
    int64_t unit = 1;  // ranks that work on one sample: worlds that fit are multiples of it
  };

  // Throws UsageError for more spares, or a larger minimum, than there are nodes.
  explicit NodePool(Options options);

  void lose(const std::string& host) { lost_.insert(host); }
  void bring_back(const std::string& host) { lost_.erase(host); }
  // A node that was not there at the start; it counts as lost until it is brought back. False where
  // it is known. Throws Unsupported where the size of the world is fixed.
  bool add(PoolNode node);
  const std::set<std::string>& lost() const { return lost_; }
  bool may_change() const { return options_.fits != nullptr; }
  int nodes_left() const;
  bool has_several_nodes() const { return options_.nodes.size() > 1; }
  int min_nodes() const { return options_.min_nodes; }

  // The largest world that fits on the nodes in use, ranks in the order of nodes and slots; nothing
  // if too few nodes are left or no world fits. why_not() then says it.
  std::optional<std::vector<RankPlacement>> next_world() const;
  std::string why_not() const;

 private:
  std::vector<const PoolNode*> nodes_in_use() const;
  std::vector<RankPlacement> all_places() const;
  bool fits(int ranks) const;

  Options options_;
  int first_ranks_ = 0;
  std::set<std::string> lost_;
};

}  // namespace ds
