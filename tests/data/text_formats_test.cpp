// What training data may be: text, JSON lines, both compressed, folders and patterns; and what is
// refused, why.
#include <filesystem>

#include "core/files/input_files.h"
#include "data/text/byte_stream.h"
#include "data/text/path_pattern.h"
#include "data/text/text_kind.h"
#include "data/tokens/dataset.h"
#include "data/tokens/text_tokens.h"
#include "tests/data/compressed.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/golden.h"

using namespace ds;
using ds::testing::gzip;
using ds::testing::zstd;
using namespace std::string_view_literals;
using Paths = std::vector<std::string>;

namespace {

void put(FileSystem& fs, const std::string& path, std::string_view text) {
  fs.make_directories(parent_directory(path));
  if (fs.exists(path)) fs.remove(path);
  fs.create(path)->write(0, std::as_bytes(std::span(text)));
}

// All tokens of all sources, as text, with | between sources.
std::string tokens_of(FileSystem& fs, const Paths& paths,
                      const Tokenizer& tokenizer = ByteTokenizer(),
                      const TextOptions& options = {}) {
  std::string out;
  for (const auto& source : open_token_sources(fs, paths, tokenizer, options)) {
    std::vector<int32_t> ids(static_cast<size_t>(source->size()));
    source->read(0, ids);
    out += (out.empty() ? "" : "|") + tokenizer.decode(ids);
  }
  return out;
}

std::string long_text() {
  std::string out;
  for (int i = 0; i < 200'000; ++i)
    out += fmt::format("line {} of a long text\n", i * 7919 % 100'003);
  return out;
}

}  // namespace

TEST_CASE("JSON lines give the text of a field, each with a separator", "[data]") {
  MemoryFileSystem fs;
  put(fs, "/a.jsonl",
      "{\"text\": \"one\\u00e9\", \"id\": 1}\n\n  \r\n{\"id\": 2, \"text\": \"two\\nlines\"}\r\n");
  put(fs, "/b.ndjson", "{\"body\":\"x\"}\n{\"body\":\"\"}\n{\"body\":\"y\"}");
  CHECK(tokens_of(fs, {"/a.jsonl"}) == "one\xc3\xa9\ntwo\nlines\n");
  CHECK(tokens_of(fs, {"/b.ndjson"}, ByteTokenizer(), {.field = "body"}) == "x\n\ny\n");
  CHECK(tokens_of(fs, {"/b.ndjson"}, ByteTokenizer(),
                  {.field = "body", .after_json_line = {"<>"}}) == "x<><>y<>");
  CHECK(tokens_of(fs, {"/b.ndjson"}, ByteTokenizer(), {.field = "body", .after_json_line = {}}) ==
        "xy");
  put(fs, "/c.txt", "plain");
  CHECK(tokens_of(fs, {"/c.txt", "/a.jsonl", "/c.txt"}) == "plainone\xc3\xa9\ntwo\nlines\nplain");
  CHECK(tokens_of(fs, {"/c.txt", "/c.txt"}, ByteTokenizer(), {.after_text_file = {"--"}}) ==
        "plain--plain--");
}

TEST_CASE("documents are counted where the data say what one is", "[data]") {
  MemoryFileSystem fs;
  put(fs, "/a.jsonl", "{\"text\": \"one\"}\n\n \r\n{\"text\": \"\"}\n{\"text\": \"three\"}");
  put(fs, "/c.txt", "plain text");
  const auto documents = [&](const std::vector<std::string>& paths, const TextOptions& options) {
    return SampleSet(open_token_sources(fs, paths, ByteTokenizer(), options), 2, 256).documents();
  };
  CHECK(documents({"/a.jsonl"}, {}) == 3);
  CHECK(documents({"/c.txt"}, {}) == 1);
  CHECK(documents({"/c.txt"}, {.after_text_file = {"--"}}) == 1);
  CHECK(documents({"/c.txt", "/a.jsonl", "/c.txt"}, {}) == 5);
}

TEST_CASE("JSON lines that are none are refused with their number", "[data]") {
  using Catch::Contains;
  MemoryFileSystem fs;
  const auto refusal = [&](std::string_view text, const std::string& field = "text") {
    put(fs, "/a.jsonl", text);
    CHECK_THROWS_AS(tokens_of(fs, {"/a.jsonl"}, ByteTokenizer(), {.field = field}), DataError);
    try {
      tokens_of(fs, {"/a.jsonl"}, ByteTokenizer(), {.field = field});
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK_THAT(refusal("{\"text\":\"a\"}\n{\"body\":\"b\",\"id\":3}\n"),
             Contains("/a.jsonl:2: there is no field \"text\"") && Contains("body, id"));
  CHECK_THAT(refusal("\n{\"text\":3}"), Contains("/a.jsonl:2: the field \"text\" is no string"));
  CHECK_THAT(refusal("{\"text\":\"a\"}\n{\"text\":"),
             Contains("/a.jsonl:2: not valid JSON at byte"));
  CHECK_THAT(refusal("[{\"text\":\"a\"}]"),
             Contains("/a.jsonl:1: the line is no JSON object") && Contains("jq"));
  CHECK_THAT(refusal("plain text\n"), Contains("/a.jsonl:1: not valid JSON"));
  CHECK_THAT(refusal("{\"text\":\"\xff\"}\n"), Contains("/a.jsonl:1: not valid JSON"));
  CHECK_THAT(refusal("\n\n"), Contains("there is no text in it"));
}

TEST_CASE("gzip and zstd of text and JSON lines are read as what they hold", "[data]") {
  MemoryFileSystem fs;
  const std::string text = long_text();
  put(fs, "/t.txt.gz", gzip(text));
  put(fs, "/t.txt.zst", zstd(text));
  put(fs, "/renamed", gzip(text));  // by content, not by name
  put(fs, "/members.gz", gzip("one ") + gzip("") + gzip("two"));
  put(fs, "/frames.zst", zstd("one ") + zstd("") + zstd("two"));
  put(fs, "/l.jsonl.gz", gzip("{\"text\":\"a\"}\n{\"text\":\"b\"}\n"));
  put(fs, "/l.json.zst", zstd("{\"text\":\"a\"}\n{\"text\":\"b\"}\n"));
  CHECK((tokens_of(fs, {"/t.txt.gz"}) == text));
  CHECK((tokens_of(fs, {"/t.txt.zst"}) == text));
  CHECK((tokens_of(fs, {"/renamed"}) == text));
  CHECK(tokens_of(fs, {"/members.gz", "/frames.zst"}) == "one twoone two");
  CHECK(tokens_of(fs, {"/l.jsonl.gz", "/l.json.zst"}) == "a\nb\na\nb\n");
}

TEST_CASE("damaged and truncated compressed files are refused at any length", "[data]") {
  MemoryFileSystem fs;
  const std::string text = long_text().substr(0, 3000);
  for (const std::string& whole : {gzip(text), zstd(text)}) {
    for (size_t length = 5; length < whole.size(); length += 7) {
      put(fs, "/t", whole.substr(0, length));
      CHECK_THROWS_AS(tokens_of(fs, {"/t"}), DataError);
    }
    put(fs, "/t", whole + "trailing");
    CHECK_THROWS_WITH(tokens_of(fs, {"/t"}), Catch::Contains("damaged"));
    std::string changed = whole;
    changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 0x10);
    put(fs, "/t", changed);
    CHECK_THROWS_AS(tokens_of(fs, {"/t"}), DataError);
  }
}

TEST_CASE("a small file that decompresses to a huge one is refused by its ratio", "[data]") {
  MemoryFileSystem fs;
  const std::string bomb(size_t{40} << 20, 'a');
  put(fs, "/bomb.gz", gzip(bomb));
  put(fs, "/bomb.zst", zstd(bomb));
  CHECK_THROWS_WITH(tokens_of(fs, {"/bomb.gz"}),
                    Catch::Contains("/bomb.gz: gzip data: more than 200 times"));
  CHECK_THROWS_WITH(tokens_of(fs, {"/bomb.zst"}), Catch::Contains("more than 200 times"));
  put(fs, "/small.gz", gzip(std::string(size_t{4} << 20, 'a')));
  CHECK(open_text(fs, Paths{"/small.gz"}, ByteTokenizer())->size() == 4 << 20);
}

TEST_CASE("what is no text is refused with the reason", "[data]") {
  using Catch::Contains;
  MemoryFileSystem fs;
  const auto refuse = [&](std::string_view content, const std::string& reason) {
    INFO(reason);
    put(fs, "/x", content);
    CHECK_THROWS_WITH(tokens_of(fs, {"/x"}), Catch::StartsWith("/x: ") && Contains(reason));
    put(fs, "/x.gz", gzip(content));
    CHECK_THROWS_AS(tokens_of(fs, {"/x.gz"}), Error);
  };
  refuse("PAR1\x15\x04 and so on", "DS_WITH_ARROW");
  CHECK_THROWS_AS(tokens_of(fs, {"/x"}), Unsupported);
  refuse("\x93NUMPY\x01 {'descr'}", "NumPy");
  refuse("PK\x03\x04 zipped", "ZIP");
  refuse("BZh91AY", "bzip2");
  refuse(
      "\xFD"
      "7zXZ\0\0"sv,
      "xz");
  refuse("version https://git-lfs.github.com/spec/v1\noid sha256:12\n", "git lfs pull");
  refuse("%PDF-1.7 text", "PDF");
  refuse("\xFF\xFEt\0e\0x\0t\0"sv, "iconv -f UTF-16");
  refuse("MMIDIDX\0\0"sv, "without its .bin");
  refuse("abc\0def"sv, "1 of 7 bytes looked at are NUL");
  std::string noise;
  for (int i = 0; i < 4000; ++i) noise += static_cast<char>(i * 37 % 255 + 1);
  refuse(noise, "invalid UTF-8");
  put(fs, "/nested.gz", gzip(gzip("text")));
  CHECK_THROWS_WITH(tokens_of(fs, {"/nested.gz"}), Contains("decompress it once"));
  put(fs, "/empty", "");
  CHECK_THROWS_WITH(tokens_of(fs, {"/empty"}), "/empty: the file is empty");
  put(fs, "/empty.gz", gzip(""));
  CHECK_THROWS_WITH(tokens_of(fs, {"/empty.gz"}), Contains("there is no text in it"));
  // Binary in the middle and at the end of what begins as text.
  const std::string text = long_text();
  put(fs, "/middle", text + std::string(1 << 17, '\0') + text);
  CHECK_THROWS_WITH(tokens_of(fs, {"/middle"}), Contains("NUL"));
  put(fs, "/end", text + std::string(8, '\0'));
  CHECK_THROWS_WITH(tokens_of(fs, {"/end"}), Contains("NUL"));
}

TEST_CASE("text with a few bytes of another encoding, or cut inside a character, is text",
          "[data]") {
  MemoryFileSystem fs;
  put(fs, "/latin1",
      "d\xe9j\xe0 vu, and a lot of text that is plain, as most of it is in any language of Europe");
  CHECK(tokens_of(fs, {"/latin1"}).size() == 84);
  std::string wide;
  for (int i = 0; i < 70'000; ++i) wide += "\xe6\xbc\xa2";
  put(fs, "/wide", "x" + wide);
  CHECK(tokens_of(fs, {"/wide"}).size() == 210'001);
}

TEST_CASE("folders and patterns stand for their files in order", "[data]") {
  MemoryFileSystem fs;
  put(fs, "/d/b.txt", "b");
  put(fs, "/d/a.txt", "a");
  put(fs, "/d/sub/c.txt", "c");
  put(fs, "/d/.hidden", "h");
  put(fs, "/d/_SUCCESS", "");
  put(fs, "/d/[x].txt", "x");
  put(fs, "/e/a1.txt", "1");
  fs.make_directories("/none/.git");
  const auto expand = [&](const std::string& path) { return expand_paths(fs, Paths{path}); };
  CHECK(expand("/d") == Paths{"/d/[x].txt", "/d/a.txt", "/d/b.txt", "/d/sub/c.txt"});
  CHECK(expand("/d/") == expand("/d"));
  CHECK(expand("/*/a*.txt") == Paths{"/d/a.txt", "/e/a1.txt"});
  CHECK(expand("/d/?.txt") == Paths{"/d/a.txt", "/d/b.txt"});
  CHECK(expand("/d/[!a].txt") == Paths{"/d/b.txt"});
  CHECK(expand("/d/[x].txt") == Paths{"/d/[x].txt"});  // there is one of this very name
  CHECK(expand("/d/s*") == Paths{"/d/sub/c.txt"});
  CHECK(expand("/d/.h*") == Paths{"/d/.hidden"});
  CHECK(expand("/d/a.txt") == Paths{"/d/a.txt"});
  CHECK(expand("/missing") == Paths{"/missing"});  // whoever opens it says so
  CHECK_THROWS_AS(expand("/d/*.md"), InputMissing);
  CHECK_THROWS_WITH(expand("/x*/y"), Catch::Contains("matches no file"));
  CHECK_THROWS_WITH(expand("/none"), Catch::Contains("holds no file"));
  CHECK_THROWS_AS(expand("/**/a.txt"), Unsupported);
  CHECK_THROWS_AS(expand("/nowhere/**/a.txt"), Unsupported);
  CHECK(tokens_of(fs, {"/d/sub", "/d/a.txt"}) == "ca");
  CHECK_THROWS_AS(tokens_of(fs, {"/missing"}), InputMissing);
}

TEST_CASE("an indexed data set in a folder is one source, not two", "[data]") {
  MemoryFileSystem fs;
  put(fs, "/d/set.bin", "x");
  put(fs, "/d/set.idx", "x");
  put(fs, "/d/alone.idx", "x");
  CHECK(expand_paths(fs, Paths{"/d"}) == Paths{"/d/alone.idx", "/d/set.bin"});
  CHECK(expand_paths(fs, Paths{"/d/s*"}) == Paths{"/d/set.bin"});
  CHECK(expand_paths(fs, Paths{"/d/set"}) == Paths{"/d/set"});
  CHECK(expand_paths(fs, Paths{"/d/set.idx"}) == Paths{"/d/set.idx"});
}

TEST_CASE("a BPE tokenizer ends JSON lines with its own token", "[data]") {
  RealFileSystem real;
  const std::string folder = testing::source_directory() + "/tests/data/tokenizer/golden/";
  const auto tokenizer = load_tokenizer(real, folder + "gpt2.json");
  MemoryFileSystem fs;
  put(fs, "/a.jsonl", "{\"text\":\"the theme\"}\n{\"text\":\"these things\"}\n");
  const Separator eos{"<|endoftext|>", Separator::Kind::kOneToken};
  CHECK(tokens_of(fs, {"/a.jsonl"}, *tokenizer, {.after_json_line = eos}) ==
        "the theme<|endoftext|>these things<|endoftext|>");
  CHECK_THROWS_WITH(tokens_of(fs, {"/a.jsonl"}, *tokenizer,
                              {.after_json_line = {"<nope>", Separator::Kind::kOneToken}}),
                    Catch::Contains("the eos_token \"<nope>\""));
  put(fs, "/bad.jsonl", "{\"text\":\"fine\"}\n");
  put(fs, "/t/tokenizer.json", "{}");
  CHECK_FALSE(eos_token(fs, "/t"));
  put(fs, "/t/tokenizer_config.json", R"({"eos_token": {"content": "</s>", "lstrip": false}})");
  CHECK(eos_token(fs, "/t") == "</s>");
  CHECK(eos_token(fs, "/t/tokenizer.json") == "</s>");
  put(fs, "/t/tokenizer_config.json", R"({"eos_token": "<e>"})");
  CHECK(eos_token(fs, "/t") == "<e>");
  put(fs, "/t/tokenizer_config.json", R"({"eos_token": null})");
  CHECK_FALSE(eos_token(fs, "/t"));
  put(fs, "/t/tokenizer_config.json", R"({"eos_token": 3})");
  CHECK_THROWS_AS(eos_token(fs, "/t"), DataError);
  put(fs, "/t/tokenizer_config.json", "[");
  CHECK_THROWS_AS(eos_token(fs, "/t"), DataError);
  CHECK_FALSE(eos_token(fs, "byte"));
}

TEST_CASE("a mixture holds every sample, and groups as often as they weigh", "[data]") {
  MemoryFileSystem fs;
  put(fs, "/a", std::string(41, 'a'));         // 10 samples of 4 tokens
  put(fs, "/b", std::string(81, 'b'));         // 20
  put(fs, "/c", "cccc1dddd2eeee3ffff4gggg5");  // 6
  const auto group = [&](const std::string& path, double weight) {
    return WeightedSources{open_token_sources(fs, Paths{path}, ByteTokenizer()), weight};
  };
  const SampleSet set(
      std::vector<WeightedSources>{group("/a", 3), group("/b", 1), group("/c", 0.5)}, 4, 256);
  CHECK(set.size() == 60 + 20 + 10);
  std::map<std::string, int> times;
  std::vector<int32_t> tokens(5);
  for (int64_t i = 0; i < set.size(); ++i) {
    set.read(i, tokens);
    ++times[std::string(tokens.begin(), tokens.end())];
  }
  CHECK(times.at("aaaaa") == 60);
  CHECK(times.at("bbbbb") == 20);
  CHECK(times.at("cccc1") == 2);
  CHECK(times.at("1dddd") == 2);
  CHECK(times.at("gggg5") == 1);
  const auto [train, held] = set.split(0.3);
  CHECK(held.size() == 3 + 6 + 2);     // of each group once, whatever it weighs
  CHECK(train.size() == 42 + 14 + 7);  // 7, 14 and 4 samples, weighed
  for (int64_t i = 0; i < train.size(); ++i) {
    train.read(i, tokens);
    CHECK(std::string(tokens.begin(), tokens.end()).find('g') == std::string::npos);
  }
  CHECK_THROWS_AS(
      SampleSet(std::vector<WeightedSources>{group("/a", 1e300), group("/b", 1e-300)}, 4, 256),
      ConfigError);
  put(fs, "/tiny", "abc");
  CHECK_THROWS_AS(
      SampleSet(std::vector<WeightedSources>{group("/a", 1), group("/tiny", 1)}, 4, 256),
      DataError);
}

TEST_CASE("a look finds what opening would refuse, in every file, without reading them through",
          "[data]") {
  MemoryFileSystem memory;
  InputFiles fs(memory);
  put(memory, "d/good.txt", "one two three");
  put(memory, "d/empty.txt", "");
  put(memory, "d/image.txt", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR"sv);
  put(memory, "d/other.jsonl", "{\"body\": \"x\"}\n{\"text\": \"never reached\"}\n");
  put(memory, "d/broken.txt.gz", gzip("text").substr(0, 12));
  put(memory, "late.jsonl", "\n{\"text\": \"first\"}\nno JSON, but a look does not come so far\n");
  put(memory, "late.txt.zst", zstd(std::string(100000, 'a') + std::string(2, '\0')));
  std::string problems;
  const auto look = [&](const Paths& paths) {
    problems.clear();
    return look_at_token_sources(
               fs, paths, {},
               [&](const Error& error) { problems += std::string(error.what()) + "\n"; })
        .most_tokens;
  };
  CHECK(look({"d", "gone.txt", "*.parquet", "x.bin"}) == 13);  // of what is well
  for (const char* const said :
       {"d/empty.txt: the file is empty", "d/image.txt", "no field \"text\"", "d/broken.txt.gz",
        "gone.txt", "*.parquet", "x.bin"}) {
    CAPTURE(said);
    CHECK_THAT(problems, Catch::Contains(said));
  }
  CHECK(look({"late.jsonl"}) == 60);  // no more tokens than bytes
  CHECK(problems.empty());
  CHECK(look({"late.txt.zst"}) == kManyTokens);
  CHECK(look({"d/good.txt", "d/good.txt"}) == 26);  // neighbours are one source
  CHECK(look({"d/good.txt", "late.txt.zst", "late.txt.zst", "d/good.txt"}) == kManyTokens);
}

TEST_CASE("a byte order mark is left out of every text, plain or compressed", "[data]") {
  MemoryFileSystem fs;
  const std::string mark(kByteOrderMark);
  put(fs, "/a.txt", mark + "one ");
  put(fs, "/b.txt", mark + mark + "two ");  // the second is in the text
  put(fs, "/c.txt.gz", gzip(mark + "three "));
  put(fs, "/d.txt.zst", zstd(mark + "four "));
  put(fs, "/e.JSONL", mark + "{\"text\": \"five\"}\r\n{\"text\": \"six\"}\r\n");
  put(fs, "/f.jl.GZ", gzip(mark + "{\"text\": \"seven\"}\n"));
  put(fs, "/none", mark);
  const Paths all = {"/a.txt", "/b.txt", "/c.txt.gz", "/d.txt.zst", "/e.JSONL", "/f.jl.GZ"};
  CHECK(tokens_of(fs, all) == "one " + mark + "two three four five\nsix\nseven\n");
  CHECK(tokens_of(fs, {"/a.txt"}, ByteTokenizer(), {.after_text_file = {"--"}}) == "one --");
  CHECK(open_token_sources(fs, Paths{"/a.txt"}, ByteTokenizer())[0]->locate(0) ==
        "/a.txt at byte 3");
  CHECK_THROWS_WITH(tokens_of(fs, {"/none"}), "/none: there is no text in it");
  CHECK(look_at_token_sources(fs, Paths{"/a.txt"}, {}, [](const Error&) {}).most_tokens == 4);
  RealFileSystem real;
  const auto gpt2 =
      load_tokenizer(real, testing::source_directory() + "/tests/data/tokenizer/golden/gpt2.json");
  put(fs, "/plain.txt", "the theme");
  put(fs, "/marked.txt", mark + "the theme");
  CHECK(tokens_of(fs, {"/marked.txt"}, *gpt2) == tokens_of(fs, {"/plain.txt"}, *gpt2));
}

TEST_CASE("what looks like something else is read as text, with a note for each kind", "[data]") {
  MemoryFileSystem fs;
  const auto notes_of = [&](const Paths& paths) {
    const DataLook look =
        look_at_token_sources(fs, paths, {}, [](const Error& error) { FAIL(error.what()); });
    std::string out;
    for (const std::string& note : look.notes) out += note + "\n";
    return out;
  };
  put(fs, "/t/a.txt", "prose");
  put(fs, "/lines.txt", "{\"text\": \"a\"}\n");
  put(fs, "/lines.txt.gz", gzip("{\"text\": \"a\"}\n"));
  put(fs, "/page", "<!doctype html>");
  put(fs, "/s/README.md", "# About");
  put(fs, "/s/part.jl", "{\"text\": \"a\"}\n");
  CHECK(notes_of({"/t", "/t/a.txt"}).empty());
  CHECK(tokens_of(fs, {"/lines.txt"}) == "{\"text\": \"a\"}\n");
  CHECK_THAT(notes_of({"/lines.txt", "/t", "/lines.txt.gz", "/page"}),
             Catch::StartsWith("/lines.txt (and 1 other) looks like JSON lines") &&
                 Catch::Contains("\n/page looks like HTML"));
  CHECK_THAT(notes_of({"/s"}),
             Catch::StartsWith("/s/README.md is text beside JSON lines (/s/part.jl)"));
  CHECK_THAT(notes_of({"/s/*"}), Catch::Contains("/s/*.jl"));
  CHECK(notes_of({"/s/README.md", "/s/part.jl"}).empty());  // each by its name: that is meant
  CHECK(notes_of({"/s/*.jl"}).empty());
}

TEST_CASE("of many files the ends and some between are looked into", "[data]") {
  MemoryFileSystem fs;
  for (int i = 0; i < 1000; ++i)
    put(fs, fmt::format("/d/{:03}", i), i == 1 || i == 999 ? "<html>" : "text");
  const DataLook look = look_at_token_sources(fs, Paths{"/d"}, {}, [](const Error&) {});
  REQUIRE(look.notes.size() == 1);
  CHECK_THAT(look.notes[0], Catch::StartsWith("/d/999 looks like HTML"));  // 001 is passed over
  CHECK(look.most_tokens == 998 * 4 + 2 * 6);
}

TEST_CASE("folders that lead in circles by a link are refused, not followed for ever", "[data]") {
  const testing::TemporaryDirectory folder;
  RealFileSystem real;
  InputFiles fs(real);
  put(real, folder.path() / "d/a.txt", "text");
  std::filesystem::create_directory_symlink(".", folder.path() / "d/again");
  CHECK_THROWS_WITH(
      expand_paths(fs, Paths{folder.path() / "d"}),
      Catch::Contains("nested more than 32 deep") && Catch::Contains("symbolic link"));
  std::filesystem::create_symlink("self", folder.path() / "self");
  CHECK_THROWS_WITH(tokens_of(fs, {folder.path() / "s*"}), Catch::Contains("symbolic links"));
}

TEST_CASE("the documents of lines end after what separates them", "[data]") {
  MemoryFileSystem fs;
  put(fs, "/a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"\"}\n{\"text\": \"two\"}\n");
  put(fs, "/a.txt", "one\n\ntwo");
  const ByteTokenizer bytes;
  const TextOptions options{.after_json_line = {"<>"}, .after_text_file = {"!"}};
  ThreadPool pool(2);
  const auto ends_of = [&](const std::string& path, PlainText plain) {
    std::vector<int64_t> ends;
    int64_t before = 0;
    const OnIds take = [&](const IdsOfText& text, const TextPlace&) {
      for (const int64_t end : text.document_ends) ends.push_back(before + end);
      before += std::ssize(text.ids);
    };
    encode_text_file(
        fs, path,
        {.tokenizer = bytes, .options = options, .plain = plain, .pool = pool, .on_ids = take});
    return ends;
  };
  CHECK(ends_of("/a.jsonl", PlainText::kOneDocument) == std::vector<int64_t>{5, 7, 12});
  CHECK(ends_of("/a.txt", PlainText::kOneDocument) == std::vector<int64_t>{9});
  CHECK(ends_of("/a.txt", PlainText::kDocumentPerLine) == std::vector<int64_t>{5, 10});
}
