// Files and texts that are made to cost: each ends with what is right or with an error that names
// it, at sizes at which what goes over everything again and again would not end.
#include "core/status/error.h"
#include "data/tokenizer/models/piece_encoder.h"
#include "data/tokenizer/models/token_tree.h"
#include "data/tokenizer/normalize/normalizer.h"
#include "data/tokenizer/split/added_tokens.h"
#include "data/tokenizer/text/growth.h"
#include "data/tokenizer/tokenizer_frame.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;
using Catch::Contains;

namespace {

using Ids = std::vector<int32_t>;

std::string many(std::string_view text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

// So many parts of a list, with commas between them.
std::string list_of(std::string_view part, size_t times) {
  std::string out(part);
  return out + many("," + std::string(part), times - 1);
}

class Folder {
 public:
  // A tokenizer of words, of which "a" is 0 and "<s>" is 1.
  explicit Folder(const std::string& parts) {
    const std::string text = fmt::format(
        R"({{{},"model":{{"type":"WordLevel","unk_token":"a","vocab":{{"a":0,"<s>":1}}}}}})",
        parts);
    files_.create("/tokenizer.json")->write(0, std::as_bytes(std::span(text)));
  }
  std::unique_ptr<Tokenizer> load() { return make_tokenizer(files_, "/"); }
  TokenizerFrame frame() { return read_frame(files_, "/", *load()); }

 private:
  MemoryFileSystem files_;
};

const std::string kAdded = R"("added_tokens":[{"id":1,"content":"<s>","special":true}])";

}  // namespace

TEST_CASE("tokens that are longer than any text makes worth while are refused", "[data]") {
  const std::string long_one(TokenTree::kLongestToken + 1, 'a');
  const auto says = Contains("a token has 1025 bytes, expected at most 1024");
  CHECK_THROWS_WITH(unigram({{long_one, -1}}, {}), says);
  CHECK_THROWS_WITH(word_piece({{long_one, 1}}, {}), says);
  CHECK_THROWS_AS(unigram({{long_one, -1}}, {}), DataError);
  const std::string longest(TokenTree::kLongestToken, 'a');
  Ids ids;
  unigram({{longest, -1}}, {.unknown = 0})->encode(longest, ids);
  CHECK(ids == Ids{0});
}

TEST_CASE("a word of a million letters is cut into word pieces in one go", "[data]") {
  const auto model = word_piece({{"[UNK]", 0}, {"a", 1}, {"##a", 2}, {std::string(1000, 'b'), 3}},
                                {.longest = size_t{1} << 31});
  Ids ids;
  model->encode(std::string(1'000'000, 'a'), ids);
  CHECK(ids.size() == 1'000'000);
  CHECK(ids.front() == 1);
  CHECK(ids.back() == 2);
}

TEST_CASE("a word whose pieces go on without a sign is cut, too", "[data]") {
  const auto model = word_piece({{"[UNK]", 0}, {"ab", 1}, {"c", 2}}, {.prefix = ""});
  Ids ids;
  model->encode("abcab", ids);
  CHECK(ids == Ids{1, 2, 1});
}

TEST_CASE("a hundred thousand added tokens of signs and common beginnings are found", "[data]") {
  std::vector<AddedToken> tokens;
  for (int32_t i = 0; i < 100'000; ++i)
    tokens.push_back({.content = fmt::format("<|.*+?(^[{}]$|\\>", i), .id = i});
  tokens.push_back({.content = std::string(1000, '<') + "|", .id = 100'000});
  tokens.push_back({.content = tokens[7].content, .id = 100'001});  // the first one counts
  const AddedTokens added(tokens);
  Ids ids;
  size_t text_bytes = 0;
  const auto on_text = [&](std::string_view section, const TextPart&) {
    text_bytes += section.size();
    return section.size();
  };
  const std::string text = many("<|.*+?(^[9]$|\\><|.*+?(^[99999]$|\\><|.*+?(^[7]$|\\>x", 1000) +
                           std::string(20'000, '<');
  added.split(text, {}, on_text, [&](int32_t id) { ids.push_back(id); });
  REQUIRE(ids.size() == 3000);
  CHECK(Ids(ids.begin(), ids.begin() + 3) == Ids{9, 99999, 7});
  CHECK(text_bytes == 1000 + 20'000);
}

TEST_CASE("added tokens of too many bytes together are refused", "[data]") {
  std::vector<AddedToken> tokens;
  const size_t count = AddedTokens::kMostBytes / AddedTokens::kLongest + 1;
  for (size_t i = 0; i < count; ++i) {
    const std::string number = fmt::format("{:08}", i);
    tokens.push_back({.content = number + std::string(AddedTokens::kLongest - 8, 'a'), .id = 0});
  }
  CHECK_THROWS_WITH(AddedTokens(std::move(tokens)),
                    Contains("33555456 bytes together, expected at most 33554432"));
}

TEST_CASE("sequences of more parts than any tokenizer has are refused", "[data]") {
  const auto with = [](const char* what, const char* key, std::string_view part, size_t times) {
    return fmt::format(R"("{}":{{"type":"Sequence","{}":[{}]}})", what, key, list_of(part, times));
  };
  const std::string nfc = R"({"type":"NFC"})", fuse = R"({"type":"Fuse"})";
  CHECK(Folder(with("normalizer", "normalizers", nfc, 256)).load()->encode("a") == Ids{0});
  const auto says = Contains("sequences of more than 256 parts");
  CHECK_THROWS_WITH(Folder(with("normalizer", "normalizers", nfc, 257)).load(), says);
  const std::string two = fmt::format(R"({{"type":"Sequence","normalizers":[{},{}]}})", nfc, nfc);
  CHECK_THROWS_WITH(Folder(with("normalizer", "normalizers", two, 129)).load(), says);
  CHECK_THROWS_WITH(Folder(with("decoder", "decoders", fuse, 257)).load(), says);
  CHECK_THROWS_WITH(
      Folder(with("pre_tokenizer", "pretokenizers", R"({"type":"WhitespaceSplit"})", 257)).load(),
      says);
}

TEST_CASE("what the steps write for a text is bounded over all of its sections", "[data]") {
  // Each section alone is within what one may grow by.
  const std::string parts = fmt::format(R"({},"normalizer":{{"type":"Prepend","prepend":"{}"}})",
                                        kAdded, std::string(1 << 20, 'b'));
  const auto tokenizer = Folder(parts).load();
  CHECK(tokenizer->encode(many("x<s>", 3)).size() == 6);
  CHECK_THROWS_WITH(tokenizer->encode(many("x<s>", 100'000)),
                    Contains("its steps write more than") && Contains("for a text of 400000"));
  CHECK_THROWS_AS(tokenizer->encode(many("x<s>", 100'000)), DataError);
}

TEST_CASE("what the steps write for the added tokens is bounded over all of them", "[data]") {
  std::string tokens;
  for (int i = 0; i < 2000; ++i)
    tokens += fmt::format(R"({}{{"id":{},"content":"t{}","normalized":true}})", i > 0 ? "," : "",
                          i + 2, i);
  const std::string parts =
      fmt::format(R"("added_tokens":[{}],"normalizer":{{"type":"Prepend","prepend":"{}"}})", tokens,
                  std::string(1 << 20, 'b'));
  CHECK_THROWS_WITH(Folder(parts).load(), Contains("its steps write more than"));
}

TEST_CASE("pieces that grow at every step end", "[data]") {
  const std::string letters = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
  const std::string parts = fmt::format(
      R"("pre_tokenizer":{{"type":"Sequence","pretokenizers":[{{"type":"WhitespaceSplit"}},{}]}})",
      list_of(letters, 200));
  CHECK(Folder(parts).load()->encode("abc").size() == 1);
  CHECK_THROWS_WITH(Folder(parts).load()->encode("é"), Contains("bytes of a text of 2"));
}

TEST_CASE("a decoder that makes much of little ends", "[data]") {
  const std::string twice = R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})";
  const auto with = [](const std::string& decoders) {
    return Folder(fmt::format(R"("decoder":{{"type":"Sequence","decoders":[{}]}})", decoders))
        .load();
  };
  CHECK(with(list_of(twice, 5))->decode(Ids{0}) == std::string(32, 'a'));
  CHECK_THROWS_WITH(with(list_of(twice, 200))->decode(Ids{0}), Contains("bytes for a text of 2"));
  const std::string much =
      fmt::format(R"({{"type":"Replace","pattern":{{"String":"a"}},"content":"{}"}})",
                  std::string(1 << 19, 'b'));
  CHECK_THROWS_AS(with(much)->decode(Ids(1000, 0)), DataError);
  // What a pattern may do is for all tokens together, not for each.
  const std::string hard = R"({"type":"Replace","pattern":{"Regex":"(a+)+[bc]"},"content":""})";
  const auto grown = with(list_of(twice, 4) + "," + hard);
  CHECK(grown->decode(Ids{0}) == std::string(16, 'a'));
  CHECK_THROWS_WITH(grown->decode(Ids(1000, 0)), Contains("takes too much work"));
}

TEST_CASE("a template that repeats its tokens again and again is refused", "[data]") {
  const std::string special = R"({"SpecialToken":{"id":"s","type_id":0}})";
  const auto processor = [&](size_t times, size_t ids) {
    return fmt::format(
        R"("post_processor":{{"type":"TemplateProcessing","single":[{},{{"Sequence":{{"id":"A"}}}}],
            "special_tokens":{{"s":{{"id":"s","ids":[{}]}}}}}})",
        list_of(special, times), list_of("0", ids));
  };
  CHECK(Folder(processor(32, 32)).frame().before.size() == 1024);
  const auto says = Contains("more than 1024 tokens beside a text");
  CHECK_THROWS_WITH(Folder(processor(1025, 1)).frame(), says);
  CHECK_THROWS_WITH(Folder(processor(20'000, 20'000)).frame(), says);
  const std::string inner = processor(1000, 1).substr(std::string(R"("post_processor":)").size());
  const auto sequence = [&](size_t times) {
    return fmt::format(R"("post_processor":{{"type":"Sequence","processors":[{}]}})",
                       list_of(inner, times));
  };
  CHECK(Folder(sequence(1)).frame().before.size() == 1000);
  CHECK_THROWS_WITH(Folder(sequence(2)).frame(), says);
}

TEST_CASE("special tokens of a template are found among very many", "[data]") {
  constexpr int kCount = 100'000;
  std::string named = R"("x":{"ids":[]})";
  for (int i = 0; i < kCount; ++i) named += fmt::format(R"(,"s{:06}":{{"ids":[]}})", i);
  const std::string piece = fmt::format(R"({{"SpecialToken":{{"id":"s{:06}"}}}})", kCount - 1);
  const std::string processor = fmt::format(
      R"("post_processor":{{"type":"TemplateProcessing","single":[{},{{"Sequence":{{"id":"A"}}}}],
          "special_tokens":{{{}}}}})",
      list_of(piece, kCount), named);
  CHECK(Folder(processor).frame().before.empty());
}

TEST_CASE("a pattern that is too long is refused, and no message shows all of it", "[data]") {
  const auto message = [](const std::string& pattern) -> std::string {
    try {
      Regex made(pattern);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string huge = message(std::string(1 << 20, 'a'));
  CHECK(huge.find("1048576 bytes, expected at most 65536") != std::string::npos);
  CHECK(huge.size() < 400);
  CHECK(message(std::string(1000, '(')).size() < 400);
  CHECK(message(many("\\p{", 20'000)).size() < 400);
  CHECK(message("a" + many("é", 100) + "[[x]]").find("é...") != std::string::npos);
}

TEST_CASE("room to write is 512 bytes for each of a text, and 16 MiB", "[data]") {
  WritingRoom room(2);
  room.take(1024);
  room.take(size_t{16} << 20);
  CHECK_THROWS_WITH(room.take(1), Contains("write more than 16778240 bytes for a text of 2:"));
  require_sane_growth(64 * 10 + (1 << 20), 10);
  CHECK_THROWS_AS(require_sane_growth(64 * 10 + (1 << 20) + 1, 10), DataError);
}
