// Which tokens are learnt, as transformers' return_assistant_tokens_mask says
// (tests/golden/supervised).
#include "data/supervised/token_places.h"

#include <rapidjson/document.h>

#include <array>

#include "core/files/file.h"
#include "core/text/utf8.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

TEST_CASE("tokens that share a byte with what is learnt are", "[data]") {
  RealFileSystem files;
  const std::string folder = testing::source_directory() + "/tests/golden/supervised";
  rapidjson::Document golden;
  golden.Parse(files.read_text(folder + "/expected.json", 1 << 20).c_str());
  REQUIRE_FALSE(golden.HasParseError());
  const auto tokenizer = make_tokenizer(files, folder + "/model");
  for (const auto& edge : golden["edges"].GetArray()) {
    CAPTURE(edge["name"].GetString());
    const std::string text = edge["text"].GetString();
    const std::vector<int32_t> ids = tokenizer->encode(text);
    const auto places = token_places(*tokenizer, text, ids);
    REQUIRE(places);
    // Characters to bytes.
    const auto byte_of = [&](int64_t character) {
      size_t at = 0;
      for (; character > 0; --character) {
        ++at;
        while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
      }
      return at;
    };
    const chat::TextRange learnt{byte_of(edge["span"][0].GetInt64()),
                                 byte_of(edge["span"][1].GetInt64())};
    const std::vector<uint8_t> mask = mask_of_places(*places, std::span(&learnt, 1));
    REQUIRE(ids.size() == edge["input_ids"].Size());
    for (rapidjson::SizeType i = 0; i < edge["input_ids"].Size(); ++i) {
      CAPTURE(i);
      CHECK(ids[i] == edge["input_ids"][i].GetInt());
      CHECK((mask[i] != 0) == (edge["labels"][i].GetInt() != -100));
    }
  }
}

// Words with the space that a tokenizer puts before the first, and one that drops white space.
class SpacedWords final : public Tokenizer {
 public:
  int64_t vocab_size() const override { return 3; }
  bool knows(int32_t) const override { return true; }
  size_t encode_part(std::string_view, const TextPart&, std::vector<int32_t>&) const override {
    return 0;
  }
  std::string decode(std::span<const int32_t>) const override { return ""; }
  std::string in_text(int32_t id) const override {
    return id == 0 ? " one" : id == 1 ? " two" : "<e>";
  }
};

TEST_CASE("white space that a tokenizer adds or drops moves no place", "[data]") {
  const SpacedWords words;
  const std::vector<int32_t> ids{0, 1, 2, 0};
  const auto places = token_places(words, "one two \n<e>one\n", ids);
  REQUIRE(places);
  CHECK((*places)[0].end == 3);
  CHECK((*places)[1].begin == 3);
  CHECK((*places)[2].begin == 9);
  CHECK((*places)[3].begin == 12);
  // A token that stands for nothing, as a space that is put in, is learnt within a range alone.
  const std::vector<chat::TextRange> nothing{{0, 3}, {3, 3}, {3, 5}, {5, 5}};
  const auto mask_of = [&](chat::TextRange learnt) {
    return mask_of_places(nothing, std::span(&learnt, 1));
  };
  CHECK(mask_of({0, 5}) == std::vector<uint8_t>{1, 1, 1, 0});
  CHECK(mask_of({3, 5}) == std::vector<uint8_t>{0, 0, 1, 0});
  CHECK(mask_of({0, 3}) == std::vector<uint8_t>{1, 0, 0, 0});
  CHECK_FALSE(token_places(words, "One two<e>one", ids));
  CHECK_FALSE(token_places(words, "one two<e>one more", ids));
  CHECK_FALSE(token_places(words, "one two<e>", ids));
}

// An x, and the bytes of a character as tokens each, as SentencePiece falls back to them.
class ByteTokens final : public Tokenizer {
 public:
  int64_t vocab_size() const override { return 5; }
  bool knows(int32_t) const override { return true; }
  size_t encode_part(std::string_view, const TextPart&, std::vector<int32_t>&) const override {
    return 0;
  }
  std::string decode(std::span<const int32_t> ids) const override {
    constexpr std::array<std::string_view, 5> kTexts{"x", "\xf0", "\x9f", "\x98", "\x80"};
    std::string bytes;
    for (const int32_t id : ids) bytes += kTexts.at(static_cast<size_t>(id));
    return as_utf8(bytes);
  }
  std::string in_text(int32_t id) const override {
    return decode(std::array{id, id}).substr(decode(std::array{id}).size());
  }
};

TEST_CASE("bytes that are tokens each stand for their character", "[data]") {
  const std::vector<int32_t> ids{0, 1, 2, 3, 4, 0};
  const auto places = token_places(ByteTokens(), "x\U0001F600x", ids);
  REQUIRE(places);
  for (size_t i = 1; i < 5; ++i) {
    CHECK((*places)[i].begin == 1);
    CHECK((*places)[i].end == 5);
  }
  CHECK((*places)[5].begin == 5);
  CHECK_FALSE(token_places(ByteTokens(), "x\U0001F601x", ids));
}

}  // namespace
}  // namespace ds
