// Zip archives by their directory: what is read, and every lie that is refused.
#include "core/files/zip_reader.h"

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/zip_bytes.h"

namespace ds {
namespace {

using testing::ZipBytes;
using testing::ZipItem;
using testing::ZipWidth;

// A thousand letters "a" by raw deflate.
const std::string kDeflatedLetters("\x4b\x4c\x1c\x05\xa3\x60\x14\x0c\x77\x00\x00", 11);

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string refusal(std::span<const std::byte> bytes) {
  try {
    const ZipReader reader("/a.zip", bytes);
    for (const ZipEntry& entry : reader.entries()) reader.read(entry, 1 << 20);
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal(const std::vector<ZipItem>& items) { return refusal(ZipBytes(items).bytes()); }

TEST_CASE("stored entries of a zip archive are read where they lie", "[core]") {
  const ZipWidth width = GENERATE(ZipWidth::k32, ZipWidth::k64);
  const ZipBytes archive({{"b/one", "first"}, {"a/two", ""}, {"b/", ""}}, width);
  const ZipReader reader("/a.zip", archive.bytes());
  REQUIRE(reader.entries().size() == 3);
  const ZipEntry* one = reader.find("b/one");
  REQUIRE(one != nullptr);
  CHECK(text_of(reader.stored(*one)) == "first");
  CHECK(archive.text().substr(static_cast<size_t>(one->offset), 5) == "first");
  CHECK(reader.read(*reader.find("a/two"), 0).empty());
  CHECK(reader.find("b/on") == nullptr);
  CHECK(reader.find("c") == nullptr);
}

TEST_CASE("a deflated entry of a zip archive is inflated under a bound", "[core]") {
  const std::string letters(1000, 'a');
  const ZipBytes archive({{"d", kDeflatedLetters, 8, 0, 1000, -1, letters}});
  const ZipReader reader("/a.zip", archive.bytes());
  CHECK(text_of(reader.read(*reader.find("d"), 1000)) == letters);
  CHECK_THROWS_WITH(reader.read(*reader.find("d"), 999),
                    Catch::Contains("entry 'd' becomes 1000 bytes, expected 999 at most"));
  CHECK_THAT(refusal({{"d", kDeflatedLetters, 8, 0, 999, -1, letters}}),
             Catch::Contains("entry 'd' does not inflate"));
  CHECK_THAT(refusal({{"d", kDeflatedLetters, 8, 0, 1001, -1, letters}}),
             Catch::Contains("entry 'd' does not inflate"));
  CHECK_THAT(refusal({{"d", kDeflatedLetters + "x", 8, 0, 1000, -1, letters}}),
             Catch::Contains("entry 'd' does not inflate"));
  CHECK_THAT(refusal({{"d", kDeflatedLetters, 8, 0, 1000, -1, letters + "b"}}),
             Catch::Contains("has checksum"));
  CHECK_THAT(refusal({{"d", kDeflatedLetters, 8, 0, 100000, -1, letters}}),
             Catch::Contains("cannot become 100000"));
  const ZipBytes nothing({{"d", std::string("\x03\x00", 2), 8, 0, 0, -1, ""}});
  CHECK(ZipReader("/a.zip", nothing.bytes())
            .read({ZipReader("/a.zip", nothing.bytes()).entries()[0]}, 0)
            .empty());
}

TEST_CASE("names that leave a zip archive are refused", "[core]") {
  for (const char* name : {"../a", "a/../b", "a/..", "/a", "a\\b", "a\nb", ""}) {
    CAPTURE(name);
    CHECK_THAT(refusal({{name, "x"}}),
               Catch::Contains("/a.zip: not a zip archive to be read: the name"));
  }
  CHECK(refusal({{"a/..b/c..", "x"}}) == "accepted");
}

TEST_CASE("entries of a zip archive have each a name and bytes of their own", "[core]") {
  CHECK_THAT(refusal({{"a", "x"}, {"b", "y"}, {"a", "z"}}), Catch::Contains("'a' is there twice"));
  CHECK_THAT(refusal({{"a", "x"}, {"a", "y", 0, 0, -1, 0}}), Catch::Contains("overlaps"));
  const std::string inside = ZipBytes({ZipItem{"b", "y"}}).text().substr(0, 32);
  CHECK_THAT(refusal({{"a", inside}, {"b", "y", 0, 0, -1, 31}}),
             Catch::Contains("entry 'a' overlaps 'b'"));
  CHECK_THAT(refusal({{"a", "x"}, {"b", "y", 0, 0, -1, 0}}),
             Catch::Contains("has another head at byte 0"));
}

TEST_CASE("what a zip archive may not have is refused by name", "[core]") {
  CHECK_THAT(refusal({{"a", "x", 0, 1}}), Catch::Contains("entry 'a' is encrypted"));
  CHECK_THAT(refusal({{"a", "x", 0, 0x40}}), Catch::Contains("entry 'a' is encrypted"));
  CHECK_THAT(refusal({{"a", "x", 12}}), Catch::Contains("compressed by method 12"));
  CHECK_THAT(refusal({{"a", "x", 0, 0, 2}}),
             Catch::Contains("is stored, and has both 2 and 1 bytes"));
  CHECK_THAT(refusal({{"a", "x", 0, 0, -1, 5000}}), Catch::Contains("ends beyond its"));
}

TEST_CASE("a stored entry that changed is found by its checksum", "[core]") {
  std::string text = ZipBytes({ZipItem{"a", "xyz"}}).text();
  text[31] = 'w';
  CHECK_THAT(refusal(std::as_bytes(std::span(text))), Catch::Contains("entry 'a' has checksum"));
}

TEST_CASE("a zip archive that is cut anywhere is refused", "[core]") {
  const ZipWidth width = GENERATE(ZipWidth::k32, ZipWidth::k64);
  const ZipBytes archive({{"a", "x"}, {"b", "y"}}, width);
  for (size_t size = 0; size < archive.bytes().size(); ++size) {
    CAPTURE(size);
    CHECK(refusal(archive.bytes().first(size)) != "accepted");
    CHECK(refusal(archive.bytes().subspan(archive.bytes().size() - size)) != "accepted");
  }
}

TEST_CASE("a comment may follow a zip archive, of the length that it says", "[core]") {
  std::string text = ZipBytes({ZipItem{"a", "x"}}).text();
  text[text.size() - 2] = 3;
  CHECK(refusal(std::as_bytes(std::span(text))) != "accepted");
  text += "abc";
  CHECK(refusal(std::as_bytes(std::span(text))) == "accepted");
}

}  // namespace
}  // namespace ds
