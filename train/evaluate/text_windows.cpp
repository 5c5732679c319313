#include "train/evaluate/text_windows.h"

#include <algorithm>

#include "core/status/error.h"

namespace ds {

std::vector<TextWindow> text_windows(int64_t tokens, int64_t length, int64_t stride) {
  DS_CHECK(length >= 1 && stride >= 1 && stride <= length, "text windows: length {}, stride {}",
           length, stride);
  std::vector<TextWindow> windows;
  const int64_t predictions = tokens - 1;
  int64_t done = 0;
  for (int64_t first = 0; done < predictions; first += stride) {
    const int64_t end = std::min(first + length, predictions);
    windows.push_back({.first = first, .length = end - first, .known = done - first});
    done = end;
  }
  return windows;
}

}  // namespace ds
