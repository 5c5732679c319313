#include "data/tokenizer/models/token_tree.h"

#include <fmt/format.h>

#include <queue>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

void check_bytes(const Vocabulary& tokens, size_t most_bytes) {
  size_t bytes = 0, longest = 0;
  for (const auto& [token, id] : tokens) {
    bytes += token.size();
    longest = std::max(longest, token.size());
  }
  if (bytes > most_bytes) {
    throw DataError(
        fmt::format("its tokens have {} bytes together, expected at most {}", bytes, most_bytes));
  }
  if (longest > TokenTree::kLongestToken) {
    throw DataError(fmt::format("a token has {} bytes, expected at most {}", longest,
                                TokenTree::kLongestToken));
  }
}

}  // namespace

TokenTree::TokenTree(const Vocabulary& tokens, size_t most_bytes) : nodes_(1) {
  check_bytes(tokens, most_bytes);
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
