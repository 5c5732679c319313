#include "data/tokenizer/byte_pair.h"

#include <queue>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

struct Symbol {
  int32_t id;
  int32_t previous, next;  // -1: none
};

struct Candidate {
  int32_t rank;
  int32_t left;               // position of the left symbol
  int32_t left_id, right_id;  // as they were; a candidate whose symbols changed since is stale
  int32_t merged_id;
  bool operator<(const Candidate& other) const {  // priority_queue takes the largest
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

}  // namespace

void BytePairEncoder::add_token(const std::string& bytes, int32_t id) {
  ids_[bytes] = id;
  if (bytes.size() == 1) byte_ids_[static_cast<unsigned char>(bytes[0])] = id;
}

int32_t BytePairEncoder::id_of(const std::string& bytes) const {
  const auto found = ids_.find(bytes);
  if (found == ids_.end()) {
    throw DataError(
        fmt::format("tokenizer: a merge needs '{}', which is not in the vocabulary", bytes));
  }
  return found->second;
}

void BytePairEncoder::add_merge(const std::string& left, const std::string& right) {
  const auto rank = static_cast<int32_t>(merges_.size());
  merges_.emplace(pair_key(id_of(left), id_of(right)), Merge{rank, id_of(left + right)});
}

const BytePairEncoder::Merge* BytePairEncoder::find(int32_t left, int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairEncoder::encode(std::string_view piece, std::vector<int32_t>& out) const {
  if (whole_ == WholePieces::kLookUpFirst) {
    if (const auto found = ids_.find(piece); found != ids_.end()) {
      out.push_back(found->second);
      return;
    }
  }
  std::vector<Symbol> symbols(piece.size());
  const auto count = static_cast<int32_t>(piece.size());
  for (int32_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(nth(piece, i));
    if (byte_ids_[byte] == kNone) {
      throw DataError(fmt::format("tokenizer: byte 0x{:02x} is not in the vocabulary", byte));
    }
    nth(symbols, i) = {byte_ids_[byte], i - 1, i + 1 < count ? i + 1 : -1};
  }
  std::priority_queue<Candidate> queue;
  const auto consider = [&](int32_t left) {
    if (left < 0 || nth(symbols, left).next < 0) return;
    const Symbol& a = nth(symbols, left);
    const Symbol& b = nth(symbols, a.next);
    if (const Merge* merge = find(a.id, b.id)) {
      queue.push({merge->rank, left, a.id, b.id, merge->id});
    }
  };
  for (int32_t i = 0; i + 1 < count; ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& a = nth(symbols, best.left);
    if (a.id != best.left_id || a.next < 0) continue;
    Symbol& b = nth(symbols, a.next);
    if (b.id != best.right_id) continue;
    a.id = best.merged_id;
    b.id = kNone;  // no longer a symbol; candidates that begin here are stale
    a.next = b.next;
    if (a.next >= 0) nth(symbols, a.next).previous = best.left;
    consider(a.previous);
    consider(best.left);
  }
  for (int32_t i = count > 0 ? 0 : -1; i >= 0; i = nth(symbols, i).next) {
    out.push_back(nth(symbols, i).id);
  }
}

}  // namespace ds
