// The conformance suites of Tokenizer and TokenSource: what everything that reads tokens relies on,
// whichever tokenizer or file they come from.
#include <algorithm>
#include <random>

#include "data/text/text_kind.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokens/dataset.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/golden.h"

using namespace ds;

namespace {

struct Named {
  std::string name;
  std::unique_ptr<Tokenizer> tokenizer;
};

std::vector<Named> tokenizers() {
  RealFileSystem fs;
  const std::string folder = testing::source_directory() + "/tests/data/tokenizer/golden/";
  std::vector<Named> out;
  out.push_back({"byte", make_tokenizer(fs, "byte")});
  for (const std::string name : {"gpt2", "llama3", "digits"}) {
    out.push_back({name, load_tokenizer(fs, folder + name + ".json")});
  }
  return out;
}

// Valid UTF-8 without the special tokens of any of them.
std::vector<std::string> texts() {
  std::vector<std::string> out{"",
                               " ",
                               "\n\n",
                               "a",
                               "In the beginning was the word.",
                               "  two  spaces ",
                               "tab\tand\r\nline",
                               "naïve café",
                               "漢字かな交じり文",
                               "🙂🙃 x",
                               "1234567890 3.14",
                               "don't WON'T",
                               std::string(5000, 'z')};
  std::minstd_rand draw(5);
  for (int i = 0; i < 50; ++i) {
    std::string text;
    for (int j = 0; j < 40; ++j) text += out[1 + draw() % 11];
    out.push_back(text);
  }
  return out;
}

void check_ids(const Named& subject, const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) {
    REQUIRE(id >= 0);
    REQUIRE(id < subject.tokenizer->vocab_size());
    REQUIRE(subject.tokenizer->knows(id));
  }
}

}  // namespace

TEST_CASE("every tokenizer gives its text back from ids that it knows", "[data]") {
  for (const Named& subject : tokenizers()) {
    for (const std::string& text : texts()) {
      INFO(subject.name << ": '" << text.substr(0, 60) << "'");
      const std::vector<int32_t> ids = subject.tokenizer->encode(text);
      check_ids(subject, ids);
      CHECK(subject.tokenizer->decode(ids) == text);
      CHECK(subject.tokenizer->encode(text) == ids);
    }
  }
}

TEST_CASE("every tokenizer decodes piece by piece what it decodes at once", "[data]") {
  for (const Named& subject : tokenizers()) {
    for (const std::string& text : texts()) {
      std::string pieces;
      for (const int32_t id : subject.tokenizer->encode(text)) {
        pieces += subject.tokenizer->decode(std::vector<int32_t>{id});
      }
      INFO(subject.name);
      CHECK(pieces == text);
    }
  }
}

TEST_CASE("no tokenizer makes up a token", "[data]") {
  for (const Named& subject : tokenizers()) {
    const auto last = static_cast<int32_t>(subject.tokenizer->vocab_size());
    INFO(subject.name);
    for (const int32_t strange : {-1, last, last + 1000, INT32_MAX, INT32_MIN}) {
      CHECK_FALSE(subject.tokenizer->knows(strange));
      CHECK_THROWS_AS(subject.tokenizer->decode(std::vector<int32_t>{strange}), DataError);
    }
    CHECK(subject.tokenizer->encode("").empty());
    CHECK(subject.tokenizer->decode({}).empty());
  }
}

namespace {

std::vector<int32_t> read_all(const TokenSource& source) {
  std::vector<int32_t> out(static_cast<size_t>(source.size()));
  source.read(0, out);
  return out;
}

// Whatever is read, at once or in parts, is the same tokens; and every one has a place.
void check_source(const TokenSource& source, const std::vector<int32_t>& expected) {
  REQUIRE(source.size() == std::ssize(expected));
  CHECK(read_all(source) == expected);
  for (int64_t part = 1; part <= source.size(); part = part * 3 + 1) {
    std::vector<int32_t> parts;
    for (int64_t at = 0; at < source.size(); at += part) {
      std::vector<int32_t> some(static_cast<size_t>(std::min(part, source.size() - at)));
      source.read(at, some);
      parts.insert(parts.end(), some.begin(), some.end());
    }
    CHECK(parts == expected);
  }
  for (const int64_t at : {int64_t{0}, source.size() / 2, source.size() - 1}) {
    CHECK_FALSE(source.locate(at).empty());
  }
  std::vector<int32_t> none;
  CHECK_NOTHROW(source.read(0, none));
}

void put(const std::string& path, std::span<const std::byte> bytes) {
  RealFileSystem fs;
  fs.create(path)->write(0, bytes);
}

}  // namespace

TEST_CASE("every source of tokens reads the same in any order and in any parts", "[data]") {
  const testing::TemporaryDirectory here;
  RealFileSystem fs;
  const std::string folder = here.path().string();
  const std::string text = "The quick brown fox jumps over the lazy dog.\nAnd once more.\n";
  put(folder + "/a.txt", std::as_bytes(std::span(text)));
  std::vector<int32_t> bytes(text.begin(), text.end());

  const ByteTokenizer byte;
  const std::vector<std::string> plain{folder + "/a.txt"};
  check_source(*open_text(fs, plain, byte), bytes);
  check_source(*open_raw_tokens(fs.open(folder + "/a.txt"), 0, 1), bytes);

  std::vector<uint16_t> narrow(bytes.begin(), bytes.end());
  put(folder + "/n.bin", std::as_bytes(std::span(narrow)));
  check_source(*open_raw_tokens(fs.open(folder + "/n.bin"), 0, 2), bytes);

  std::vector<int32_t> shard(256, 0);
  shard[0] = 20240520;
  shard[1] = 1;
  shard[2] = static_cast<int32_t>(narrow.size());
  std::string image(reinterpret_cast<const char*>(shard.data()), shard.size() * 4);
  image.append(reinterpret_cast<const char*>(narrow.data()), narrow.size() * 2);
  put(folder + "/s.bin", std::as_bytes(std::span(image)));
  check_source(*open_llmc_shard(fs, folder + "/s.bin"), bytes);

  const auto gpt2 =
      load_tokenizer(fs, testing::source_directory() + "/tests/data/tokenizer/golden/gpt2.json");
  check_source(*open_text(fs, plain, *gpt2), gpt2->encode(text));
}

namespace {

// The ids of a text that is encoded in parts of any length, with stops anywhere, as whoever reads a
// stream does: what is left comes again, with more.
std::vector<int32_t> encode_in_parts(const Tokenizer& tokenizer, std::string_view text,
                                     std::minstd_rand& draw) {
  std::vector<int32_t> ids;
  size_t wanted = 1 + draw() % 60;
  for (size_t from = 0; from < text.size();) {
    std::string_view part = text.substr(from, wanted);
    const bool goes_on = from + part.size() < text.size();
    if (goes_on) part = whole_characters(part);
    const size_t stop = draw() % 3 == 0 ? draw() % 40 : std::string_view::npos;
    std::vector<int32_t> some;
    const TextPart how{.stop = stop, .goes_on = goes_on, .continues = from > 0};
    const size_t taken = tokenizer.encode_part(part, how, some);
    REQUIRE(taken <= part.size());
    CHECK(tokenizer.decode(some) == part.substr(0, taken));
    ids.insert(ids.end(), some.begin(), some.end());
    from += taken;
    wanted = taken == 0 ? 2 * wanted + 8 : 1 + draw() % 60;
  }
  return ids;
}

}  // namespace

TEST_CASE("a text in parts has the ids of the whole, whatever the parts", "[data]") {
  std::minstd_rand draw(11);
  std::vector<std::string> all = texts();
  all.push_back("one<|endoftext|>  two\n<|endoftext|>\n\n three <|endof text|>");
  all.push_back(std::string(300, ' ') + "x" + std::string(90, '\n') + "12345678901234567890");
  for (const Named& subject : tokenizers()) {
    for (const std::string& text : all) {
      const std::vector<int32_t> expected = subject.tokenizer->encode(text);
      for (int trial = 0; trial < 6; ++trial) {
        INFO(subject.name << ": '" << text.substr(0, 80) << "'");
        REQUIRE(encode_in_parts(*subject.tokenizer, text, draw) == expected);
      }
    }
  }
}

TEST_CASE("a stop is where the tokens of the whole text meet next", "[data]") {
  RealFileSystem fs;
  const auto gpt2 =
      load_tokenizer(fs, testing::source_directory() + "/tests/data/tokenizer/golden/gpt2.json");
  const std::string text = "first line\nsecond line, and what a special token has room in";
  std::vector<int32_t> ids;
  CHECK(gpt2->encode_part(text, {.stop = 11, .goes_on = true}, ids) == 11);
  ids.clear();
  CHECK(gpt2->encode_part(text, {.stop = 7}, ids) == 10);  // " line" goes on
  ids.clear();
  CHECK(gpt2->encode_part("word", {.goes_on = true}, ids) == 0);  // "words" is another piece
  CHECK(ids.empty());
  CHECK(gpt2->encode_part("word", {}, ids) == 4);
}
