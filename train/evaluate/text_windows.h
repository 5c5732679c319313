// How a long text is cut into sequences that a model can take (pure), so that every token but the
// first is predicted exactly once.
#pragma once

#include <cstdint>
#include <vector>

namespace ds {

// Inputs are tokens [first, first + length), targets the same shifted by one, of which the first
// `known` were predicted in the window before: they are there as context only.
struct TextWindow {
  int64_t first = 0;
  int64_t length = 0;
  int64_t known = 0;
  bool operator==(const TextWindow&) const = default;
};

// 1 <= stride <= length: with less than `length`, windows overlap, and each prediction sees at
// least length - stride tokens before it. The last window ends with the text and may be shorter.
std::vector<TextWindow> text_windows(int64_t tokens, int64_t length, int64_t stride);

}  // namespace ds
