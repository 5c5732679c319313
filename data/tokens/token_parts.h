// Token sources made of others, or held in memory.
#pragma once

#include <algorithm>

#include "core/values/index.h"
#include "data/tokens/dataset.h"

namespace ds {

// Tokens in memory, of type T.
template <class T>
class TokenList final : public TokenSource {
 public:
  TokenList(std::string path, std::vector<T> tokens,
            std::optional<int64_t> documents = std::nullopt)
      : path_(std::move(path)), tokens_(std::move(tokens)), documents_(documents) {
    tokens_.shrink_to_fit();  // it stays for the whole run
  }
  int64_t size() const override { return narrow<int64_t>(tokens_.size()); }
  std::optional<int64_t> documents() const override { return documents_; }
  void read(int64_t offset, std::span<int32_t> out) const override {
    DS_CHECK(offset >= 0 && offset + narrow<int64_t>(out.size()) <= size(),
             "read tokens [{}, {}) of {}, which has {}", offset,
             offset + narrow<int64_t>(out.size()), path_, size());
    std::copy_n(tokens_.begin() + offset, out.size(), out.begin());
  }
  std::string locate(int64_t token) const override {
    return fmt::format("{} at token {}", path_, token);
  }

 private:
  std::string path_;
  std::vector<T> tokens_;
  std::optional<int64_t> documents_;
};

// Splits an index space over consecutive parts.
class Offsets {
 public:
  void add(int64_t size) { begin_.push_back(begin_.back() + size); }
  int64_t total() const { return begin_.back(); }
  // The part that holds the index, and the index inside it; empty parts hold none.
  std::pair<size_t, int64_t> find(int64_t index) const {
    const auto after = std::upper_bound(begin_.begin(), begin_.end(), index);
    const auto part = to_size(after - begin_.begin()) - 1;
    return {part, index - begin_[part]};
  }
  int64_t size(size_t part) const { return begin_[part + 1] - begin_[part]; }

 private:
  std::vector<int64_t> begin_{0};
};

// One after the other.
class Concatenation final : public TokenSource {
 public:
  explicit Concatenation(std::vector<std::shared_ptr<const TokenSource>> parts)
      : parts_(std::move(parts)) {
    for (const auto& part : parts_) offsets_.add(part->size());
  }
  int64_t size() const override { return offsets_.total(); }
  std::optional<int64_t> documents() const override { return sum_of_documents(parts_); }
  void read(int64_t offset, std::span<int32_t> out) const override {
    while (!out.empty()) {
      const auto [part, inside] = offsets_.find(offset);
      const auto count = std::min(narrow<int64_t>(out.size()), offsets_.size(part) - inside);
      parts_[part]->read(inside, out.first(to_size(count)));
      out = out.subspan(to_size(count));
      offset += count;
    }
  }
  std::string locate(int64_t token) const override {
    const auto [part, inside] = offsets_.find(token);
    return part < parts_.size() ? parts_[part]->locate(inside) : "the end of the data";
  }

 private:
  std::vector<std::shared_ptr<const TokenSource>> parts_;
  Offsets offsets_;
};

}  // namespace ds
