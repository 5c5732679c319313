// What the first bytes of a file say it is: compression by content, layout by name, and where the
// line runs between text and what is none.
#include "data/text/text_kind.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;
using namespace std::string_view_literals;

namespace {

std::string refusal_of(std::string_view sample, SampleFrom at = SampleFrom::kBeginning) {
  try {
    require_text(sample, at, "f");
  } catch (const Error& error) {
    return error.what();
  }
  return "text";
}

}  // namespace

TEST_CASE("compression is told by the first bytes alone", "[data]") {
  CHECK(compression_of("\x1F\x8B\x08 and on"sv) == Compression::kGzip);
  CHECK(compression_of("\x28\xB5\x2F\xFD"sv) == Compression::kZstd);
  for (const std::string_view head : {""sv, "\x1F"sv, "\x1F\x8B"sv, "\x1F\x8B\x07"sv,
                                      "\x28\xB5\x2F"sv, "text"sv, " \x1F\x8B\x08"sv}) {
    CHECK(compression_of(head) == Compression::kNone);
  }
}

TEST_CASE("the layout is told by the name without the endings of compression", "[data]") {
  for (const char* path : {"a.jsonl", "a.ndjson", "d.x/a.json", "a.jsonl.gz", "a.json.gzip",
                           "a.ndjson.zst", "a.jsonl.zstd", "a.jsonlines", "a.jl", "a.JSON",
                           "a.JSONL", "A.JsonLines.GZ", "a.b.JL.zst", ".jsonl"}) {
    CAPTURE(path);
    CHECK(layout_of(path) == TextLayout::kJsonLines);
  }
  for (const char* path : {"", "a", "a.txt", "a.txt.gz", "jsonl", "a.jsonl.txt", "a.jsonl.bz2",
                           "a.json5", "d.json/a", "a.jsonl.", "d.jsonl/a.txt", "ajl", ".gz"}) {
    CAPTURE(path);
    CHECK(layout_of(path) == TextLayout::kPlain);
  }
}

TEST_CASE("a name ends in small letters, whatever compressed it", "[data]") {
  CHECK(ending_of("d.x/A.Txt.GZ") == ".txt");
  CHECK(ending_of("a.txt.gz.zst") == ".txt");
  CHECK(ending_of("a.tar.bz2") == ".bz2");
  for (const char* path : {"", "a", "d.x/a", "a.gz", "d.x/.gz"}) CHECK(ending_of(path).empty());
}

TEST_CASE("a byte order mark at the very beginning is no part of a text", "[data]") {
  CHECK(without_mark("\xEF\xBB\xBFtext") == "text");
  CHECK(without_mark("\xEF\xBB\xBF\xEF\xBB\xBF") == "\xEF\xBB\xBF");
  for (const char* text : {"", "text", "\xEF\xBB", " \xEF\xBB\xBF"})
    CHECK(without_mark(text) == text);
}

TEST_CASE("every format that is known is refused by its name, with what to do", "[data]") {
  struct Case {
    std::string_view head;
    const char* what;
    const char* advice;
  };
  for (const Case& one :
       {Case{"PK\x03\x04"sv, "a ZIP archive", "unpack it"},
        {"\x93NUMPY"sv, "a NumPy array", "llm.c shard"},
        {"\x89HDF\r\n"sv, "an HDF5 file", "JSON lines"},
        {"ARROW1"sv, "an Arrow file", "JSON lines"},
        {"\xFD"
         "7zXZ\0"sv,
         "compressed with xz", "use gzip or zstd"},
        {"BZh9"sv, "compressed with bzip2", "use gzip or zstd"},
        {"\x04\x22\x4D\x18"sv, "compressed with lz4", "use gzip or zstd"},
        {"\x1F\x8B\x08"sv, "gzip inside another compression", "once"},
        {"\x28\xB5\x2F\xFD"sv, "zstd inside another compression", "once"},
        {"%PDF-"sv, "a PDF document", "extract its text"},
        {"\x89PNG"sv, "an image", "only text"},
        {"\xFF\xD8\xFF"sv, "an image", "only text"},
        {"\x7F"
         "ELF"sv,
         "a program", "only text"},
        {"SQLite format 3\0"sv, "an SQLite database", "JSON lines"},
        {"PK\x05\x06"sv, "an empty ZIP archive", "unpack it"},
        {"7z\xBC\xAF\x27\x1C"sv, "a 7z archive", "unpack it"},
        {"Rar!\x1A\x07"sv, "a RAR archive", "unpack it"},
        {"\xD0\xCF\x11\xE0"sv, "an Office document", "plain text"},
        {"\xFF\xFF\xFF\xFF"sv, "an Arrow stream", "to_json"},
        {"Obj\x01"sv, "an Avro file", "JSON lines"},
        {"\x80\x02"sv, "a Python pickle", "JSON lines"},
        {"\x80\x05\x95"sv, "a Python pickle", "JSON lines"},
        {"GGUF\3\0\0\0"sv, "weights of a model (GGUF)", "only text"},
        {"\x1F\x9D"sv, "compressed with compress", "use gzip or zstd"},
        {"GIF89a"sv, "an image", "only text"},
        {"OggS\0"sv, "a sound", "only text"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"sv, "a pointer of Git LFS",
         "git lfs pull"},
        {"\xFF\xFE\0\0t\0\0\0"sv, "UTF-32 text", "iconv -f UTF-32"},
        {"\0\0\xFE\xFF"sv, "UTF-32 text", "iconv -f UTF-32"},
        {"\x08\0\0\0\0\0\0\0{\"a\":{}"sv, "weights of a model (safetensors)", "only text"},
        {"\xFF\xFE"sv, "UTF-16 text", "iconv -f UTF-16"},
        {"\xFE\xFF"sv, "UTF-16 text", "iconv -f UTF-16"},
        {"MMIDIDX\0"sv, "the index of a dataset", "PREFIX.idx"},
        {"TNTIDX\0"sv, "the index of a dataset", "PREFIX.idx"}}) {
    CAPTURE(one.what);
    const std::string said = refusal_of(std::string(one.head) + " and so on");
    CHECK_THAT(said, Catch::StartsWith("f: it is no text but ") && Catch::Contains(one.what) &&
                         Catch::Contains(one.advice));
    CHECK_THROWS_AS(require_text(one.head, SampleFrom::kBeginning, "f"), DataError);
  }
}

TEST_CASE("signatures count at the beginning of a file only", "[data]") {
  for (const std::string_view head : {"PAR1"sv, "BZh"sv, "%PDF-"sv, "ARROW1"sv}) {
    CHECK(refusal_of(head, SampleFrom::kInside) == "text");
    CHECK(refusal_of("x" + std::string(head)) == "text");
    CHECK(refusal_of(head) != "text");
    CHECK(refusal_of(head.substr(0, head.size() - 1)) == "text");
  }
}

TEST_CASE("Parquet is refused as what another build could read", "[data]") {
  CHECK_THROWS_AS(require_text("PAR1", SampleFrom::kBeginning, "f"), Unsupported);
  CHECK_THAT(refusal_of("PAR1"), Catch::Contains("DS_WITH_ARROW"));
}

TEST_CASE("a tar archive is told by what stands behind its first name", "[data]") {
  std::string tar(600, 'a');
  CHECK(refusal_of(tar) == "text");
  tar.replace(257, 5, "ustar");
  CHECK(refusal_of(tar) == "f: it is no text but a tar archive; unpack it");
  CHECK(refusal_of(tar.substr(1)) == "text");
  CHECK(refusal_of(tar, SampleFrom::kInside) == "text");
}

TEST_CASE("one NUL makes a file binary, and all of them are counted", "[data]") {
  CHECK_THAT(refusal_of("a\0b\0\0"sv), Catch::Contains("binary: 3 of 5 bytes looked at are NUL"));
  CHECK_THAT(refusal_of("a\0"sv, SampleFrom::kInside), Catch::Contains("1 of 2 bytes"));
}

TEST_CASE("UTF-16 without its mark is told by where the NUL bytes are", "[data]") {
  std::string little;
  std::string big;
  for (const char c : std::string_view("some text of a plain kind")) {
    little += {c, '\0'};
    big += {'\0', c};
  }
  CHECK_THAT(refusal_of(little), Catch::Contains("UTF-16 text without a byte order mark") &&
                                     Catch::Contains("iconv -f UTF-16LE -t UTF-8"));
  CHECK_THAT(refusal_of(big), Catch::Contains("iconv -f UTF-16BE -t UTF-8"));
  CHECK_THAT(refusal_of(little + '\0'), Catch::Contains("are NUL"));
  CHECK_THAT(refusal_of(little.substr(0, 14)), Catch::Contains("are NUL"));
  CHECK_THAT(refusal_of(std::string(100, '\0')), Catch::Contains("100 of 100 bytes"));
  CHECK_THAT(refusal_of(little + std::string(60, 'a')), Catch::Contains("are NUL"));
}

TEST_CASE("up to a tenth of other bytes, and a cut at both ends, is let through", "[data]") {
  for (const size_t size : {10UL, 100UL, 1000UL}) {
    const size_t most = size / 10 + 6;
    for (size_t bad = 0; bad <= size; ++bad) {
      const std::string sample = std::string(bad, '\xE9') + std::string(size - bad, 'a');
      CAPTURE(size, bad);
      CHECK((refusal_of(sample) == "text") == (bad <= most));
    }
  }
  const std::string latin(50, '\xE9');
  CHECK(refusal_of(latin) ==
        "f: it is no text but binary or in another encoding: 50 of 50 bytes looked at are invalid "
        "UTF-8; convert text with iconv -f ITS_ENCODING -t UTF-8 FILE > NEW_FILE");
}

TEST_CASE("text of wide characters may be cut anywhere", "[data]") {
  std::string wide;
  for (int i = 0; i < 50; ++i) wide += "\xF0\x9F\x98\x80";
  for (size_t begin = 0; begin < 4; ++begin) {
    for (size_t end = 0; end < 4; ++end) {
      CHECK(refusal_of(std::string_view(wide).substr(begin, wide.size() - begin - end),
                       SampleFrom::kInside) == "text");
    }
  }
  CHECK(refusal_of("") == "text");
  CHECK(refusal_of("\xEF\xBB\xBFwith a byte order mark") == "text");
}
