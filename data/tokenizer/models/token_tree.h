// Tokens as a tree of their bytes: what a text begins with is found in one walk (pure).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizer/models/piece_encoder.h"

namespace ds {

// Thread-safe once built.
class TokenTree {
 public:
  // The bytes of all tokens together are bounded, since each may take a node: some ten times as
  // many as the largest vocabularies have.
  static constexpr size_t kMostBytes = size_t{1} << 24;
  // Each byte of a text may cost a walk along the longest token.
  static constexpr size_t kLongestToken = 1024;  // bytes

  TokenTree() : nodes_(1) {}  // of no token
  // No text begins with an empty token. DataError for tokens of more than `most_bytes` together,
  // or for one that is longer than kLongestToken.
  explicit TokenTree(const Vocabulary& tokens, size_t most_bytes = kMostBytes);

  // Calls `on_token` with the length and the id of each token that the text begins with, shortest
  // first.
  template <class OnToken>
  void for_each_prefix(std::string_view text, const OnToken& on_token) const {
    const Node* node = nodes_.data();
    for (size_t length = 0; length < text.size();) {
      node = child(*node, static_cast<unsigned char>(text[length]));
      if (node == nullptr) return;
      ++length;
      if (node->id >= 0) on_token(length, node->id);
    }
  }

  struct Match {
    size_t bytes = 0;  // 0: none
    int32_t id = -1;
  };
  // The longest token that the text begins with.
  Match longest(std::string_view text) const {
    Match out;
    for_each_prefix(text, [&](size_t length, int32_t id) { out = {length, id}; });
    return out;
  }
  size_t longest_prefix(std::string_view text) const { return longest(text).bytes; }

 private:
  struct Node {
    int32_t first_child = 0;
    int32_t id = -1;  // the token that ends here
    uint16_t children = 0;
    unsigned char byte = 0;
  };
  const Node* child(const Node& node, unsigned char byte) const {
    const Node* first = nodes_.data() + node.first_child;
    const Node* last = first + node.children;
    const Node* found =
        std::partition_point(first, last, [byte](const Node& n) { return n.byte < byte; });
    return found != last && found->byte == byte ? found : nullptr;
  }

  std::vector<Node> nodes_;
};

}  // namespace ds
