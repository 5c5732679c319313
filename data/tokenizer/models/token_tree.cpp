#include "data/tokenizer/models/token_tree.h"

#include "core/values/index.h"

namespace ds {

TokenTree::TokenTree(const Vocabulary& tokens) : nodes_(1) {
  std::vector<std::pair<std::string_view, int32_t>> sorted(tokens.begin(), tokens.end());
  std::ranges::sort(sorted);
  // Breadth first, so that the children of a node lie beside each other.
  struct Open {
    size_t node, begin, end, depth;
  };
  std::vector<Open> open{{0, 0, sorted.size(), 0}};
  for (size_t next = 0; next < open.size(); ++next) {
    auto [node, begin, end, depth] = open[next];
    if (begin < end && sorted[begin].first.size() == depth) {
      nodes_[node].id = sorted[begin].second;
      ++begin;
    }
    nodes_[node].first_child = narrow<int32_t>(std::ssize(nodes_));
    while (begin < end) {
      const char byte = sorted[begin].first[depth];
      size_t same = begin;
      while (same < end && sorted[same].first[depth] == byte) ++same;
      open.push_back({nodes_.size(), begin, same, depth + 1});
      nodes_.push_back({.byte = static_cast<unsigned char>(byte)});
      ++nodes_[node].children;
      begin = same;
    }
  }
}

}  // namespace ds
