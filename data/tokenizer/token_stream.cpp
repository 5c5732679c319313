#include "data/tokenizer/token_stream.h"

#include <algorithm>
#include <utility>

#include "config/reader/utf8.h"

namespace ds {
namespace {

// Few enough to decode for every token.
constexpr size_t kWindow = 64;

}  // namespace

TokenStream::TokenStream(const Tokenizer& tokenizer, std::span<const int32_t> before)
    : tokenizer_(tokenizer) {
  const size_t kept = std::min(before.size(), kWindow);
  window_.assign(before.end() - static_cast<ptrdiff_t>(kept), before.end());
  shown_ = tokenizer_.decode(window_);
  settled_ = window_.size();
}

std::string TokenStream::add(int32_t id) {
  window_.push_back(id);
  std::string text = tokenizer_.decode(window_);
  // A decoder may take back what it made of bytes that no character came of; that stays shown.
  const size_t known = std::min(shown_.size(), text.size());
  std::string more = text.substr(known);
  shown_ = std::move(text);
  if (first_invalid_utf8(shown_) != std::string::npos) return more;
  settled_before_ = std::exchange(settled_, window_.size());
  if (window_.size() > kWindow && settled_before_ > 0) {
    window_.erase(window_.begin(), window_.begin() + static_cast<ptrdiff_t>(settled_before_));
    shown_ = tokenizer_.decode(window_);
    settled_ -= settled_before_;
    settled_before_ = 0;
  }
  return more;
}

}  // namespace ds
