// Windows over a text: every token but the first is predicted once, with as much context as the
// stride promises.
#include "train/evaluate/text_windows.h"

#include "tests/support/catch.h"

using namespace ds;

TEST_CASE("windows without overlap follow each other", "[rankd]") {
  CHECK(text_windows(9, 4, 4) == std::vector<TextWindow>{{0, 4, 0}, {4, 4, 0}});
  CHECK(text_windows(10, 4, 4) == std::vector<TextWindow>{{0, 4, 0}, {4, 4, 0}, {8, 1, 0}});
  CHECK(text_windows(3, 4, 4) == std::vector<TextWindow>{{0, 2, 0}});
  CHECK(text_windows(1, 4, 4).empty());
  CHECK(text_windows(0, 4, 4).empty());
}

TEST_CASE("overlapping windows predict each token once", "[rankd]") {
  CHECK(text_windows(9, 4, 2) == std::vector<TextWindow>{{0, 4, 0}, {2, 4, 2}, {4, 4, 2}});
  for (int64_t tokens = 2; tokens < 40; ++tokens) {
    for (int64_t length = 1; length <= 9; ++length) {
      for (int64_t stride = 1; stride <= length; ++stride) {
        int64_t next = 1;  // the token that is to be predicted
        for (const TextWindow& window : text_windows(tokens, length, stride)) {
          CHECK(window.first + 1 + window.known == next);
          CHECK(window.known < window.length);
          if (next > length) CHECK(window.known >= length - stride);
          next = window.first + 1 + window.length;
        }
        CHECK(next == tokens);
      }
    }
  }
}
