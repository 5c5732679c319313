// Byte-pair encoding of one piece of text (pure): start from single bytes or characters, then again
// and again join the adjacent pair whose merge has the lowest rank, leftmost first (Sennrich et al.
// 2016). O(n log n) in the length of the piece.
#pragma once

#include <array>

#include "data/tokenizer/models/piece_encoder.h"

namespace ds {

struct BytePairForm {
  // What a piece begins as: its bytes, as in GPT-2, or its characters.
  enum class Units { kBytes, kCharacters };
  // kLookUpFirst: a piece that is a token is that token.
  enum class WholePieces { kMerge, kLookUpFirst };
  // Which neighbours are joined: those that merges list, by their order; or (bytes alone) those
  // whose union is a token, by its id, as in tiktoken.
  enum class Joins { kListed, kByUnion };
  Units units = Units::kBytes;
  WholePieces whole = WholePieces::kMerge;
  Joins joins = Joins::kListed;
  // Written before every character of a piece but the first one, and behind the last one.
  std::string prefix = {}, suffix = {};
  // A character that is no token: its bytes' tokens, or else this one, once for a run of them
  // where `fuse_unknown` is set.
  bool byte_fallback = false, fuse_unknown = false;
  std::optional<std::string> unknown = {};
};

// Thread-safe once built.
class BytePairEncoder final : public PieceEncoder {
 public:
  BytePairEncoder(BytePairForm form, Vocabulary vocabulary);
  // Ranks are given by the order of calls, and of equal pairs the last one counts. DataError unless
  // both parts and their union are tokens.
  void add_merge(const std::string& left, const std::string& right);
  // DataError for a byte or character that nothing stands for.
  void encode(std::string_view piece, std::vector<int32_t>& out) const override;
  // Whether no merge makes a token that has `sign` behind anything but itself, so that pieces may
  // be cut before each run of it. The sign is a token, and pieces are merged.
  bool may_cut_before(std::string_view sign) const;

 private:
  struct Merge {
    int32_t rank, id;
  };
  static constexpr int32_t kNone = -1;
  int32_t id_of(const std::string& token) const;  // DataError
  std::optional<Merge> find(int32_t left, int32_t right) const;
  std::vector<int32_t> bytes_of(std::string_view piece) const;
  std::vector<int32_t> characters_of(std::string_view piece) const;
  std::optional<Merge> find_union(std::string_view bytes) const;
  // `find`: what two neighbours become, by their ids, where the first begins and the second ends.
  template <class Find>
  void merge(const std::vector<int32_t>& ids, const Find& find, std::vector<int32_t>& out) const;

  BytePairForm form_;
  std::array<int32_t, 256> byte_ids_{};
  ByteTokens fallback_;
  Vocabulary ids_;
  size_t longest_ = 0;  // token, in bytes
  int32_t ranks_ = 0;
  std::vector<std::string> merged_;  // what merges make
  // Key: left id in the high word, right id in the low.
  std::unordered_map<uint64_t, Merge> merges_;
};

}  // namespace ds
