// Parts of a text that is not there whole.
#pragma once

#include <cstddef>
#include <string_view>

namespace ds {

// How far a text that comes in parts is encoded.
struct TextPart {
  // Encoding ends at the first place from here on at which tokens of the whole text meet.
  size_t stop = std::string_view::npos;
  // More text follows, and what it can change is not encoded.
  bool goes_on = false;
  // Other text stands directly before: this is what was left of a part.
  bool continues = false;

  bool is_cut() const { return goes_on || stop != std::string_view::npos; }
  // How far what follows the first bytes of the text is encoded.
  TextPart after(size_t bytes) const {
    constexpr size_t kEnd = std::string_view::npos;
    return {.stop = stop == kEnd ? kEnd : stop - bytes,
            .goes_on = goes_on,
            .continues = continues || bytes > 0};
  }
};

}  // namespace ds
