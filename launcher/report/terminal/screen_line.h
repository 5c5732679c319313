// Lines of a screen (pure): text with an ink for each part, which never is wider than it says. All
// text of others in it is made harmless when it is added, so that the only escape sequences of a
// line are those of its inks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/decide/text/environment.h"

namespace ds {

// What a terminal can show.
struct ScreenLook {
  size_t columns = 80;
  size_t rows = 24;
  bool utf8 = false;    // else ASCII
  bool colour = false;  // else no ink
};

// LC_ALL, LC_CTYPE and LANG say it, as to C libraries, with TERM and NO_COLOR. The size is that of
// most terminals.
ScreenLook look_for(const Environment& environment, bool no_colour);

enum class Ink : uint8_t { kPlain, kBold, kBar, kGood, kWarning, kBad };

class ScreenLine {
 public:
  ScreenLine() = default;
  explicit ScreenLine(std::string_view text, Ink ink = Ink::kPlain) { add(text, ink); }

  // Control characters become visible, line ends and tabs blanks.
  void add(std::string_view text, Ink ink = Ink::kPlain);
  void pad_to(size_t columns);  // with blanks
  size_t columns() const { return columns_; }
  std::string text() const;  // without ink
  std::string painted() const;

 private:
  struct Part {
    std::string text;
    Ink ink;
  };
  std::vector<Part> parts_;
  size_t columns_ = 0;
};

// This is what add() makes of a text.
std::string one_line(std::string_view text);

// Both return one line of at most `columns`: an ellipsis replaces the end or the beginning of a
// text that is longer.
std::string without_end(std::string_view text, size_t columns, const ScreenLook& look);
std::string without_beginning(std::string_view text, size_t columns, const ScreenLook& look);

// Breaks a text between words into lines as wide as the look, and cuts the last of `most`.
std::vector<std::string> wrapped(std::string_view text, size_t most, const ScreenLook& look);

}  // namespace ds
