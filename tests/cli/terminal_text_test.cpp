#include "cli/text/terminal_text.h"

#include <random>

#include "cli/text/markup_text.h"
#include "core/text/utf8.h"
#include "tests/support/catch.h"
#include "tests/support/files/redirected_streams.h"

namespace ds {
namespace {

std::string encoded(unsigned code) {
  std::string out;
  append_utf8(code, out);
  return out;
}

}  // namespace

TEST_CASE("what would steer a terminal is shown", "[cli]") {
  CHECK(terminal_text("\x1b]0;owned\a\x1b[2J") == "\\u001b]0;owned\\u0007\\u001b[2J");
  CHECK(terminal_text("a\rb\bc\x7f") == "a\\u000db\\u0008c\\u007f");
  CHECK(terminal_text(std::string("\0", 1)) == "\\u0000");
  CHECK(terminal_text("two\nlines\tand a tab") == "two\nlines\tand a tab");
  CHECK(terminal_text("\\u001b is six letters") == "\\u001b is six letters");
  CHECK(terminal_text("\xC2\x9B"
                      "31m") == "\\u009b31m");
  CHECK(terminal_text("\x9b"
                      "31m") ==
        "\xEF\xBF\xBD"
        "31m");  // the same in one byte, as old terminals take it
  CHECK(terminal_text("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80") ==
        "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  CHECK(terminal_text("").empty());
}

TEST_CASE("of all characters the controls and those that turn the direction are shown", "[cli]") {
  for (unsigned code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    const bool control =
        (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code <= 0x9F);
    const bool turns = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
    const std::string text = encoded(code);
    if (terminal_text(text) != (control || turns ? fmt::format("\\u{:04x}", code) : text))
      FAIL(code);
  }
}

TEST_CASE("whatever bytes come, what is shown is UTF-8, steers nothing and is shown alike again",
          "[cli]") {
  std::mt19937 draw(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(draw() % 12, '\0');
    for (char& byte : bytes)
      byte = static_cast<char>(draw() % 3 == 0 ? draw() % 128 : 128 + draw() % 128);
    const std::string shown = terminal_text(bytes);
    if (first_invalid_utf8(shown) != std::string::npos) FAIL(i);
    if (terminal_text(shown) != shown) FAIL(i);
    if (markup_text(bytes).find_first_of("<>\"'") != std::string::npos) FAIL(i);
  }
}

TEST_CASE("a line is cut between characters", "[cli]") {
  CHECK(fitting("abc", 2) == "ab");
  CHECK(fitting("abc", 3) == "abc");
  CHECK(fitting("abc", 9) == "abc");
  CHECK(fitting("\xC3\xA9\xE2\x82\xACx", 1) == "\xC3\xA9");
  CHECK(fitting("\xC3\xA9\xE2\x82\xACx", 2) == "\xC3\xA9\xE2\x82\xAC");
  CHECK(fitting("abc", 0).empty());
}

TEST_CASE("what a terminal draws wide takes two columns", "[cli]") {
  const std::string wide = "a\xE6\xBC\xA2\xF0\x9F\x98\x80z";  // of Chinese and of pictures
  CHECK(columns_of("") == 0);
  CHECK(columns_of("abc") == 3);
  CHECK(columns_of("\xC3\xA9\xE2\x96\x88") == 2);
  CHECK(columns_of("\xFF\xFF") == 2);  // each is shown as U+FFFD
  CHECK(columns_of(wide) == 6);
  CHECK(fitting(wide, 2) == "a");
  CHECK(fitting(wide, 3) == wide.substr(0, 4));
  CHECK(fitting(wide, 5) == wide.substr(0, 8));
  CHECK(fitting(wide, 6) == wide);
}

TEST_CASE("what is said is shown, what steers is not", "[cli]") {
  const testing::Printed printed = testing::printed_by([] {
    say("{} {}\n", "\x1b[1m", 7);
    say(stderr, "error: {}\n", "\r");
    steer_terminal(stderr, "\r\x1b[K");
  });
  CHECK(printed.out == "\\u001b[1m 7\n");
  CHECK(printed.error == "error: \\u000d\n\r\x1b[K");
}

TEST_CASE("inside markup nothing is markup", "[cli]") {
  CHECK(markup_text("<a href='x' id=\"y\">&amp;\x1b") ==
        "&lt;a href=&#39;x&#39; id=&quot;y&quot;&gt;&amp;amp;\\u001b");
}

}  // namespace ds
