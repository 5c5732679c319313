// What of a text is shown when: stop texts over token borders, characters in pieces, bytes that are
// none.
#include "generate/shown_text.h"

#include "tests/support/catch.h"

using namespace ds;

namespace {

// All that is shown of pieces that come one by one.
std::string all_of(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  ShownText shown(stops);
  std::string out;
  for (const std::string& piece : pieces) out += shown.add(piece);
  return out + shown.finish();
}

}  // namespace

TEST_CASE("a text ends before the first stop text that comes", "[rankd]") {
  CHECK(all_of({"."}, {"One", ". Two"}) == "One");
  CHECK(all_of({"xx", "b"}, {"aab", "xx"}) == "aa");
  CHECK(all_of({"never"}, {"a", "b"}) == "ab");
  CHECK(all_of({}, {"a", "b"}) == "ab");
}

TEST_CASE("a stop text is found over the borders of tokens, and its beginning is not shown before",
          "[rankd]") {
  ShownText shown({"\n\nQ:"});
  CHECK(shown.add("A: yes\n") == "A: yes");
  CHECK(shown.add("\nQ") == "");
  CHECK(!shown.has_stopped());
  CHECK(shown.add(": more") == "");
  CHECK(shown.has_stopped());
  CHECK(shown.add("after") == "");
  CHECK(shown.finish() == "");
}

TEST_CASE("what looked like a stop text and was none is shown", "[rankd]") {
  ShownText shown({"aab"});
  CHECK(shown.add("xaa") == "x");
  CHECK(shown.add("a") == "a");  // "aa" may still begin it
  CHECK(shown.add("c") == "aac");
  CHECK(all_of({"END"}, {"the EN"}) == "the EN");
}

TEST_CASE("a character is shown once it is whole", "[rankd]") {
  ShownText shown({});
  CHECK(shown.add("a\xE2") == "a");
  CHECK(shown.add("\x82") == "");
  CHECK(shown.add("\xAC!") == "\xE2\x82\xAC!");
  CHECK(shown.add("\xF0\x9F\x98") == "");
  CHECK(shown.add("\x80") == "\xF0\x9F\x98\x80");
}

TEST_CASE("bytes that are no characters are shown as U+FFFD", "[rankd]") {
  const std::string replaced = "\xEF\xBF\xBD";
  CHECK(all_of({}, {"a\xFF", "b"}) == "a" + replaced + "b");
  CHECK(all_of({}, {"a\xC3", "b"}) == "a" + replaced + "b");
  CHECK(all_of({}, {"a", "\xC3"}) == "a" + replaced);  // the text ended inside a character
  CHECK(all_of({"."}, {"\xC3."}) == replaced);
  CHECK(as_utf8("\x80\x80") == replaced + replaced);
}
