#include "data/tokenizer/models/byte_pair.h"

#include <algorithm>
#include <queue>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/tokenizer/text/unicode.h"

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

BytePairEncoder::BytePairEncoder(BytePairForm form, Vocabulary vocabulary)
    : form_(std::move(form)), ids_(std::move(vocabulary)) {
  byte_ids_.fill(kNone);
  for (const auto& [token, id] : ids_) {
    longest_ = std::max(longest_, token.size());
    if (token.size() == 1) byte_ids_[static_cast<unsigned char>(token[0])] = id;
  }
  if (form_.byte_fallback) fallback_ = ByteTokens(ids_);
}

int32_t BytePairEncoder::id_of(const std::string& token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) {
    throw DataError(
        fmt::format("tokenizer: a merge needs '{}', which is not in the vocabulary", token));
  }
  return found->second;
}

void BytePairEncoder::add_merge(const std::string& left, const std::string& right) {
  const std::string_view rest =
      std::string_view(right).substr(right.starts_with(form_.prefix) ? form_.prefix.size() : 0);
  std::string both = left + std::string(rest);
  const Merge merge{ranks_, id_of(both)};
  merges_[pair_key(id_of(left), id_of(right))] = merge;
  ++ranks_;
  if (form_.units == BytePairForm::Units::kCharacters) merged_.push_back(std::move(both));
}

std::optional<BytePairEncoder::Merge> BytePairEncoder::find(int32_t left, int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<BytePairEncoder::Merge> BytePairEncoder::find_union(std::string_view bytes) const {
  if (bytes.size() > longest_) return std::nullopt;
  const auto id = find_token(ids_, bytes);
  return id ? std::optional(Merge{*id, *id}) : std::nullopt;
}

bool BytePairEncoder::may_cut_before(std::string_view sign) const {
  if (form_.units != BytePairForm::Units::kCharacters || !form_.prefix.empty() ||
      !form_.suffix.empty() || form_.whole != BytePairForm::WholePieces::kMerge ||
      !ids_.contains(sign)) {
    return false;
  }
  for (const std::string_view token : merged_) {
    for (size_t at = token.find(sign, 1); at != std::string_view::npos;
         at = token.find(sign, at + 1)) {
      const std::string_view before = token.substr(0, at);
      if (!before.ends_with(sign)) return false;
    }
  }
  return true;
}

std::vector<int32_t> BytePairEncoder::bytes_of(std::string_view piece) const {
  std::vector<int32_t> ids;
  ids.reserve(piece.size());
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte_ids_[byte] == kNone) {
      throw DataError(fmt::format("tokenizer: byte 0x{:02x} is not in the vocabulary", byte));
    }
    ids.push_back(byte_ids_[byte]);
  }
  return ids;
}

std::vector<int32_t> BytePairEncoder::characters_of(std::string_view piece) const {
  std::vector<int32_t> ids;
  ids.reserve(piece.size());
  // An unknown token waits for what may be joined with it; the tokens of bytes overtake it, as they
  // do in the reference.
  bool waits = false;
  std::string written;
  unicode::for_each_character(piece, [&](char32_t, size_t at, size_t bytes) {
    const std::string_view character = piece.substr(at, bytes);
    written.assign(at > 0 ? form_.prefix : "");
    written += character;
    if (at + bytes == piece.size()) written += form_.suffix;
    if (const auto id = find_token(ids_, written)) {
      if (waits) ids.push_back(id_of(*form_.unknown));
      waits = false;
      ids.push_back(*id);
      return;
    }
    if (form_.byte_fallback && fallback_.append(written, ids)) return;
    if (!form_.unknown) {
      throw DataError(
          fmt::format("tokenizer: the character '{}' is not in the vocabulary, and "
                      "model.unk_token names none that stands for it",
                      character));
    }
    if (waits && !form_.fuse_unknown) ids.push_back(id_of(*form_.unknown));
    waits = true;
  });
  if (waits) ids.push_back(id_of(*form_.unknown));
  return ids;
}

void BytePairEncoder::encode(std::string_view piece, std::vector<int32_t>& out) const {
  if (form_.whole == BytePairForm::WholePieces::kLookUpFirst) {
    if (const auto id = find_token(ids_, piece)) {
      out.push_back(*id);
      return;
    }
  }
  const bool bytes = form_.units == BytePairForm::Units::kBytes;
  const std::vector<int32_t> ids = bytes ? bytes_of(piece) : characters_of(piece);
  if (form_.joins == BytePairForm::Joins::kListed) {
    merge(
        ids, [&](int32_t a, int32_t b, size_t, size_t) { return find(a, b); }, out);
    return;
  }
  const auto find_joined = [&](int32_t, int32_t, size_t begin, size_t end) {
    return find_union(piece.substr(begin, end - begin));
  };
  merge(ids, find_joined, out);
}

template <class Find>
void BytePairEncoder::merge(const std::vector<int32_t>& ids, const Find& find,
                            std::vector<int32_t>& out) const {
  const auto count = narrow<int32_t>(std::ssize(ids));
  std::vector<Symbol> symbols(ids.size());
  for (int32_t i = 0; i < count; ++i)
    nth(symbols, i) = {nth(ids, i), i - 1, i + 1 < count ? i + 1 : -1};
  std::priority_queue<Candidate> queue;
  const auto consider = [&](int32_t left) {
    if (left < 0 || nth(symbols, left).next < 0) return;
    const Symbol& a = nth(symbols, left);
    const Symbol& b = nth(symbols, a.next);
    const int32_t end = b.next < 0 ? count : b.next;
    const std::optional<Merge> merge =
        find(a.id, b.id, static_cast<size_t>(left), static_cast<size_t>(end));
    if (merge) queue.push({merge->rank, left, a.id, b.id, merge->id});
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
