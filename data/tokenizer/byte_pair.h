// Byte-pair encoding of one piece of text (pure): start from single bytes, then again and again
// join the adjacent pair whose merge has the lowest rank, leftmost first (Sennrich et al. 2016, on
// bytes as in GPT-2). O(n log n) in the length of the piece.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ds {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Thread-safe once built.
class BytePairEncoder {
 public:
  enum class WholePieces {
    kMerge,
    kLookUpFirst
  };  // kLookUpFirst: a piece that is a token is that token

  explicit BytePairEncoder(WholePieces whole) : whole_(whole) { byte_ids_.fill(kNone); }
  void add_token(const std::string& bytes, int32_t id);
  // Ranks are given by the order of calls. DataError unless both parts and their union are tokens.
  void add_merge(const std::string& left, const std::string& right);
  // Appends the ids; DataError for a byte that is no token.
  void encode(std::string_view piece, std::vector<int32_t>& out) const;

 private:
  struct Merge {
    int32_t rank, id;
  };
  static constexpr int32_t kNone = -1;
  int32_t id_of(const std::string& bytes) const;  // DataError
  const Merge* find(int32_t left, int32_t right) const;

  WholePieces whole_;
  std::array<int32_t, 256> byte_ids_{};
  std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>> ids_;
  // Key: left id in the high word, right id in the low.
  std::unordered_map<uint64_t, Merge> merges_;
};

}  // namespace ds
