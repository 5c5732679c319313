#include "data/tokenizer/token_stream.h"

#include <algorithm>
#include <utility>

#include "core/text/utf8.h"
#include "data/text/text_kind.h"

namespace ds {
namespace {

constexpr size_t kWindow = 64;   // few enough tokens to decode for every new one
constexpr size_t kFurther = 16;  // more of them, where a character begins before the window
constexpr size_t kMost = 4 * kWindow;

// A text that decoding has begun inside a character.
bool begins_inside(std::string_view text) {
  return !text.empty() && (is_continuation(text.front()) || text.starts_with("\uFFFD"));
}

size_t common_prefix(std::string_view a, std::string_view b) {
  const auto [end, other] = std::ranges::mismatch(a, b);
  return static_cast<size_t>(end - a.begin());
}

}  // namespace

TokenStream::TokenStream(const Tokenizer& tokenizer, std::span<const int32_t> before)
    : tokenizer_(tokenizer) {
  for (size_t count = std::min(before.size(), kWindow);; ++count) {
    const std::span<const int32_t> last = before.last(count);
    window_.assign(last.begin(), last.end());
    shown_ = tokenizer_.decode(window_);
    if (count == before.size() || count >= kWindow + kFurther || !begins_inside(shown_)) break;
  }
  shown_.resize(whole_characters(shown_).size());
  settled_ = window_.size();
}

std::string TokenStream::add(int32_t id) {
  window_.push_back(id);
  const std::string text = tokenizer_.decode(window_);
  const std::string_view whole = whole_characters(text);
  std::string more(whole.substr(common_prefix(shown_, whole)));
  shown_ = whole;
  if (whole.size() == text.size()) settled_before_ = std::exchange(settled_, window_.size());
  if (window_.size() > kWindow) shorten();
  return more;
}

std::string TokenStream::finish() {
  const std::string text = tokenizer_.decode(window_);
  return text.substr(std::min(text.size(), common_prefix(shown_, text)));
}

// Leaves at least one token whose text has been told, so that the next one is not the first.
void TokenStream::shorten() {
  size_t dropped = settled_before_;
  if (dropped == 0 && window_.size() > kMost) dropped = window_.size() - kWindow;
  if (dropped == 0) return;
  window_.erase(window_.begin(), window_.begin() + static_cast<ptrdiff_t>(dropped));
  shown_ = tokenizer_.decode(window_);
  shown_.resize(whole_characters(shown_).size());
  settled_ -= std::min(settled_, dropped);
  settled_before_ = 0;
}

}  // namespace ds
