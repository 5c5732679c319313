// Small tokenizers of every kind that folders bring: ids, and the texts that come back, equal those
// of the reference implementation on strange texts.
#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "core/text/utf8.h"
#include "data/text/text_kind.h"
#include "data/tokenizer/token_stream.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokens/text_tokens.h"
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

namespace {

struct InParts {
  std::vector<int32_t> ids;
  size_t most_held = 0;  // bytes of the text that were looked at for one part
};

// As whoever reads a stream does: what is left comes again, with more, and stops lie where the
// tokenizer proposes them.
InParts encode_in_parts(const Tokenizer& tokenizer, std::string_view text, size_t size,
                        std::minstd_rand& draw) {
  InParts out;
  size_t wanted = size;
  for (size_t from = 0; from < text.size();) {
    std::string_view part = text.substr(from, wanted);
    const bool goes_on = from + part.size() < text.size();
    if (goes_on) part = whole_characters(part);
    size_t stop = std::string_view::npos;
    if (draw() % 2 == 0) stop = draw() % 2 == 0 ? tokenizer.next_cut(part, size / 4) : size / 4;
    std::vector<int32_t> some;
    const size_t taken = tokenizer.encode_part(
        part, {.stop = stop, .goes_on = goes_on, .continues = from > 0}, some);
    REQUIRE(taken <= part.size());
    if (taken == 0) REQUIRE(some.empty());
    out.most_held = std::max(out.most_held, part.size());
    out.ids.insert(out.ids.end(), some.begin(), some.end());
    from += taken;
    wanted = taken == 0 ? 2 * wanted + 8 : size;
  }
  return out;
}

// Lines of all the texts, several thousand of them.
std::string many_lines() {
  std::string out;
  std::minstd_rand draw(3);
  while (out.size() < 60'000) {
    for (const std::string& text : kinds().texts) {
      out += text;
      out += draw() % 3 == 0 ? " some words of a line that goes on " : "\n";
      if (draw() % 5 == 0) out += "<mask> and\r\n [MASK]</s>\nthe next <pad>";
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a tokenizer of any kind encodes in parts what it encodes at once", "[data]") {
  const std::string text = many_lines();
  std::minstd_rand draw(7);
  int in_parts = 0;
  for (const Kind& kind : kinds().all) {
    const std::vector<int32_t> expected = kind.tokenizer->encode(text);
    for (const size_t size : {300U, 9'000U}) {
      INFO(kind.name << ", parts of " << size);
      const InParts parts = encode_in_parts(*kind.tokenizer, text, size, draw);
      const auto differ = std::ranges::mismatch(parts.ids, expected);
      INFO("they differ after " << differ.in1 - parts.ids.begin() << " ids");
      REQUIRE(differ.in1 == parts.ids.end());
      REQUIRE(differ.in2 == expected.end());
      if (kind.tokenizer->encodes_in_parts()) CHECK(parts.most_held < 10'000);
    }
    if (kind.tokenizer->encodes_in_parts()) ++in_parts;
  }
  CHECK(in_parts == 24);
  for (const char* const name :
       {"qwen", "neox", "llama2", "mistral", "gemma", "bert_uncased", "t5"}) {
    INFO(name);
    CHECK(std::ranges::find(kinds().all, name, &Kind::name)->tokenizer->encodes_in_parts());
  }
}

TEST_CASE("threads encode parts of a file whose tokenizer has normalizers", "[data]") {
  std::string lines = many_lines();
  std::erase(lines, '\0');  // no text has it
  std::string text = "\uFEFF";
  while (text.size() < (size_t{5} << 20)) text += lines;
  MemoryFileSystem fs;
  fs.create("text.txt")->write(0, std::as_bytes(std::span(text)));
  ThreadPool pool(2);
  for (const char* const name : {"qwen", "llama2", "bert_cased"}) {
    const Tokenizer& tokenizer = *std::ranges::find(kinds().all, name, &Kind::name)->tokenizer;
    std::vector<int32_t> ids;
    size_t calls = 0;
    encode_text_file(fs, "text.txt",
                     {.tokenizer = tokenizer,
                      .options = {},
                      .pool = pool,
                      .on_ids = [&](const IdsOfText& part, const TextPlace&) {
                        ids.insert(ids.end(), part.ids.begin(), part.ids.end());
                        ++calls;
                      }});
    INFO(name);
    CHECK((ids == tokenizer.encode(std::string_view(text).substr(3))));
    CHECK(calls == 4);  // two parts, the rest, the end
  }
}
