// Small tokenizers of every kind that folders bring: ids, and the texts that come back, equal those
// of the reference implementation on strange texts.
#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <sstream>

#include "config/reader/utf8.h"
#include "data/text/text_kind.h"
#include "data/tokenizer/token_stream.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/golden.h"

using namespace ds;

namespace {

std::string from_hex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return out;
}

// FNV-1a of the ids and the text, whose U+FFFD do not count.
std::string digest_of(const std::vector<int32_t>& ids, std::string text) {
  for (size_t at = text.find("\uFFFD"); at != std::string::npos; at = text.find("\uFFFD", at))
    text.erase(at, 3);
  uint64_t out = 0xCBF29CE484222325;
  for (const char c : fmt::format("{}|{}", fmt::join(ids, ","), text))
    out = (out ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return fmt::format("{:016x}", out);
}

struct Kind {
  std::string name;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::string> digests;
};

struct Kinds {
  std::vector<std::string> texts;
  std::vector<Kind> all;
};

std::vector<std::string> strings_of(const rapidjson::Value& list) {
  std::vector<std::string> out;
  for (const auto& item : list.GetArray()) out.emplace_back(item.GetString());
  return out;
}

std::unique_ptr<Tokenizer> read(const rapidjson::Value& json) {
  rapidjson::StringBuffer text;
  rapidjson::Writer<rapidjson::StringBuffer> writer(text);
  json.Accept(writer);
  MemoryFileSystem fs;
  fs.write_text_atomically("/tokenizer.json", {text.GetString(), text.GetSize()});
  return make_tokenizer(fs, "/");
}

const Kinds& kinds() {
  static const Kinds read_once = [] {
    RealFileSystem fs;
    std::istringstream lines(fs.read_text(
        testing::source_directory() + "/tests/data/tokenizer/golden/kinds.jsonl", 1 << 24));
    Kinds out;
    for (std::string line; std::getline(lines, line);) {
      rapidjson::Document document;
      REQUIRE_FALSE(document.Parse(line.c_str()).HasParseError());
      if (document.HasMember("texts")) {
        for (const std::string& hex : strings_of(document["texts"]))
          out.texts.push_back(from_hex(hex));
        continue;
      }
      out.all.push_back({document["name"].GetString(), read(document["tokenizer"]),
                         strings_of(document["digests"])});
    }
    return out;
  }();
  return read_once;
}

}  // namespace

TEST_CASE("tokenizers of every kind agree with the reference implementation", "[data]") {
  REQUIRE(kinds().all.size() > 30);
  REQUIRE(kinds().texts.size() > 200);
  for (const Kind& kind : kinds().all) {
    REQUIRE(kind.digests.size() == kinds().texts.size());
    for (size_t i = 0; i < kinds().texts.size(); ++i) {
      const std::string& text = kinds().texts[i];
      INFO(kind.name << ": '" << text << "'");
      const std::vector<int32_t> ids = kind.tokenizer->encode(text);
      CHECK(digest_of(ids, as_utf8(kind.tokenizer->decode(ids))) == kind.digests[i]);
    }
  }
}

TEST_CASE("a text in tokens that come one by one is the text of all of them", "[data]") {
  for (const Kind& kind : kinds().all) {
    for (const std::string& text : kinds().texts) {
      const std::vector<int32_t> ids = kind.tokenizer->encode(text);
      if (ids.size() > 300) continue;
      INFO(kind.name << ": '" << text << "'");
      const std::string whole = kind.tokenizer->decode(ids);
      TokenStream stream(*kind.tokenizer);
      std::string shown;
      for (const int32_t id : ids) shown += stream.add(id);
      shown += stream.finish();
      // Bytes that are no text may be shown before it is known that none comes of them.
      if (whole.find("\uFFFD") == std::string::npos) CHECK(shown == whole);
      for (size_t prompt = 1; prompt < std::min<size_t>(ids.size(), 4); ++prompt) {
        const std::span<const int32_t> before = std::span(ids).first(prompt);
        TokenStream rest(*kind.tokenizer, before);
        std::string both(whole_characters(kind.tokenizer->decode(before)));
        for (const int32_t id : std::span(ids).subspan(prompt)) both += rest.add(id);
        both += rest.finish();
        if (whole.find("\uFFFD") == std::string::npos) CHECK(both == whole);
      }
    }
  }
}

TEST_CASE("parts of characters are shown when the others have come, or never", "[data]") {
  const auto llama = std::ranges::find(kinds().all, "llama2", &Kind::name);
  REQUIRE(llama != kinds().all.end());
  const Tokenizer& tokenizer = *llama->tokenizer;
  const auto byte = [&](const char* text) { return tokenizer.encode(text).back(); };
  const std::vector<int32_t> pen = tokenizer.encode("a\u4ffd");  // three bytes after "a"
  REQUIRE(pen.size() >= 4);
  const std::span<const int32_t> bytes = std::span(pen).last(3);
  TokenStream whole(tokenizer, std::span(pen).first(pen.size() - 3));
  CHECK(whole.add(bytes[0]).empty());
  CHECK(whole.add(bytes[1]).empty());
  CHECK(whole.add(bytes[2]) == "\u4ffd");
  CHECK(whole.finish().empty());
  TokenStream broken(tokenizer, std::span(pen).first(pen.size() - 3));
  CHECK(broken.add(bytes[0]).empty());
  CHECK(broken.add(byte("a")) == "\uFFFD a");
  TokenStream ended(tokenizer);
  CHECK(ended.add(bytes[0]).empty());
  CHECK(ended.finish() == "\xE4");
  // A prompt of bytes alone, longer than what is looked back at.
  std::vector<int32_t> prompt;
  for (int i = 0; i < 60; ++i) prompt.insert(prompt.end(), bytes.begin(), bytes.end());
  TokenStream after(tokenizer, prompt);
  std::string shown;
  for (int i = 0; i < 60; ++i)
    for (const int32_t id : bytes) shown += after.add(id);
  std::string expected;
  for (int i = 0; i < 60; ++i) expected += "\u4ffd";
  CHECK(shown == expected);
}

TEST_CASE("bytes that are no text do not make a stream remember all of it", "[data]") {
  const ByteTokenizer bytes;
  TokenStream stream(bytes);
  std::string shown = stream.add(0xff);
  for (int i = 0; i < 2000; ++i) shown += stream.add('a' + i % 26);
  shown += stream.finish();
  REQUIRE(shown.size() == 2001);
  CHECK(shown.front() == '\xff');
  CHECK(shown.substr(1, 3) == "abc");
}

TEST_CASE("a tokenizer of any kind encodes in parts what it encodes at once", "[data]") {
  for (const Kind& kind : kinds().all) {
    for (const std::string& text : kinds().texts) {
      if (text.empty()) continue;
      const std::vector<int32_t> expected = kind.tokenizer->encode(text);
      INFO(kind.name << ": '" << text << "'");
      const std::string_view half =
          whole_characters(std::string_view(text).substr(0, text.size() / 2));
      std::vector<int32_t> ids;
      const size_t taken = kind.tokenizer->encode_part(half, {.goes_on = true}, ids);
      REQUIRE(taken <= half.size());
      if (taken == 0) {  // more text has to be known
        CHECK(ids.empty());
        continue;
      }
      kind.tokenizer->encode_part(std::string_view(text).substr(taken), {}, ids);
      CHECK(ids == expected);
    }
  }
}
