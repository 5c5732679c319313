// Places at which a text may be cut before its normalizers.
#include "data/tokenizer/split/cut_places.h"

#include <vector>

#include "tests/support/catch.h"

namespace ds {
namespace {

using Kind = CutPlaces::Kind;

std::vector<size_t> all(Kind kind, std::string_view text) {
  std::vector<size_t> out;
  const CutPlaces places(kind);
  for (size_t at = places.next(text, 0); at != std::string_view::npos;
       at = places.next(text, at + 1))
    out.push_back(at);
  return out;
}

}  // namespace

TEST_CASE("lines are cut where the next one begins with no white space", "[data]") {
  CHECK(all(Kind::kBehindLines, "one\ntwo\n three\n\nfour\r\nfive\n") ==
        std::vector<size_t>{4, 16, 22});
  CHECK(all(Kind::kBehindLines, "a\n\u6f22\n\u3000b\n\u2581c\n") == std::vector<size_t>{2});
  CHECK(all(Kind::kBehindLines, "\na") == std::vector<size_t>{1});
  CHECK(all(Kind::kBehindLines, "").empty());
  CHECK(CutPlaces(Kind::kBehindLines).next("one\ntwo\nsix", 4) == 4);
  CHECK(CutPlaces(Kind::kBehindLines).next("one\ntwo\nsix", 5) == 8);
}

TEST_CASE("spaces are cut before where a character that is none stands alone", "[data]") {
  CHECK(all(Kind::kBeforeSpaces, " one  two\n three\u3000 four\u2581 six ") ==
        std::vector<size_t>{4, 31});
  // A sign of Arabic numbers (U+0600) takes what follows to itself, and U+00E9 does not.
  CHECK(all(Kind::kBeforeSpaces, "\u0600 1 caf\u00e9 2") == std::vector<size_t>{4, 10});
  CHECK(CutPlaces(Kind::kBeforeSpaces).next("one two six", 3) == 3);
  CHECK(CutPlaces(Kind::kBeforeSpaces).next("one two six", 4) == 7);
}

TEST_CASE("there are texts in which nothing is cut", "[data]") {
  CHECK(all(Kind::kNone, "one two\nsix").empty());
  for (const char* const text : {"", "``", " ", "  ", "\u2581 ", "word"}) CHECK(is_never_cut(text));
  for (const char* const text : {"a b", " a", "a\n", "\nb"}) CHECK_FALSE(is_never_cut(text));
}

}  // namespace ds
