#include "data/tokenizer/models/token_tree.h"

#include <fmt/format.h>

#include <queue>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

void check_bytes_of_all(const Vocabulary& tokens) {
  size_t bytes = 0;
  for (const auto& [token, id] : tokens) bytes += token.size();
  if (bytes > TokenTree::kMostBytes) {
    throw DataError(fmt::format("its tokens have {} bytes together, expected at most {}", bytes,
                                TokenTree::kMostBytes));
  }
}

}  // namespace

TokenTree::TokenTree(const Vocabulary& tokens) : nodes_(1) {
  check_bytes_of_all(tokens);
  std::vector<std::pair<std::string_view, int32_t>> sorted(tokens.begin(), tokens.end());
  std::ranges::sort(sorted);
  // Breadth first, so that the children of a node lie beside each other.
  struct Open {
    size_t node, begin, end, depth;
  };
  std::queue<Open> open;
  open.push({0, 0, sorted.size(), 0});
  for (; !open.empty(); open.pop()) {
    auto [node, begin, end, depth] = open.front();
    if (begin < end && sorted[begin].first.size() == depth) {
      nodes_[node].id = sorted[begin].second;
      ++begin;
    }
    nodes_[node].first_child = narrow<int32_t>(std::ssize(nodes_));
    while (begin < end) {
      const char byte = sorted[begin].first[depth];
      size_t same = begin;
      while (same < end && sorted[same].first[depth] == byte) ++same;
      open.push({nodes_.size(), begin, same, depth + 1});
      nodes_.push_back({.byte = static_cast<unsigned char>(byte)});
      ++nodes_[node].children;
      begin = same;
    }
  }
}

}  // namespace ds
