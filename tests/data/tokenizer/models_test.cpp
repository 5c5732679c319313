// Models other than byte pairs, and byte pairs of characters.
#include "core/status/error.h"
#include "data/tokenizer/models/byte_pair.h"
#include "data/tokenizer/models/token_tree.h"
#include "tests/support/catch.h"

using namespace ds;

namespace {

using Ids = std::vector<int32_t>;

Ids encode(const PieceEncoder& model, std::string_view piece) {
  Ids ids;
  model.encode(piece, ids);
  return ids;
}

Vocabulary with_bytes(Vocabulary vocabulary) {
  for (int byte = 0; byte < 256; ++byte) vocabulary[fmt::format("<0x{:02X}>", byte)] = 1000 + byte;
  return vocabulary;
}

}  // namespace

TEST_CASE("word pieces are the longest ones first, or the word is unknown", "[data]") {
  const auto model = word_piece({{"[UNK]", 0}, {"un", 1}, {"##aff", 2}, {"##able", 3}, {"##a", 4}},
                                {.longest = 12});
  CHECK(encode(*model, "unaffable") == Ids{1, 2, 3});
  CHECK(encode(*model, "unaa") == Ids{1, 4, 4});
  CHECK(encode(*model, "unaffx") == Ids{0});
  CHECK(encode(*model, "aff") == Ids{0});  // only inside words
  CHECK(encode(*model, "unaaaaaaaaaa").size() == 11);
  CHECK(encode(*model, "unaaaaaaaaaaa") == Ids{0});  // of 13 characters
  CHECK(encode(*model, "é") == Ids{0});
  const auto strict = word_piece({{"a", 1}}, {});
  CHECK_THROWS_WITH(encode(*strict, "b"),
                    Catch::Contains("'b' is no token") && Catch::Contains("[UNK]"));
  CHECK_THROWS_AS(encode(*strict, "b"), DataError);
}

TEST_CASE("words are tokens or unknown", "[data]") {
  const auto model = word_level({{"<unk>", 0}, {"a", 1}}, "<unk>");
  CHECK(encode(*model, "a") == Ids{1});
  CHECK(encode(*model, "b") == Ids{0});
  CHECK_THROWS_AS(encode(*word_level({{"a", 1}}, "<unk>"), "b"), DataError);
}

TEST_CASE("of all cuts into tokens the likeliest is taken", "[data]") {
  const std::vector<ScoredToken> tokens{{"<unk>", 0}, {"a", -1}, {"b", -1},    {"ab", -1.5},
                                        {"bc", -4},   {"c", -2}, {"abc", -3.6}};
  const auto model = unigram(tokens, {.unknown = 0});
  CHECK(encode(*model, "ab") == Ids{3});
  CHECK(encode(*model, "abc") == Ids{3, 5});  // -3.5 is more than -3.6
  CHECK(encode(*model, "bc") == Ids{2, 5});
  CHECK(encode(*model, "axyb") == Ids{1, 0, 2});  // a run of unknown characters is one
  CHECK(encode(*model, "éa") == Ids{0, 1});
  CHECK(encode(*model, "<unk>") == Ids{0});
  CHECK_THROWS_WITH(encode(*unigram({{"a", -1}}, {}), "ab"), Catch::Contains("model.unk_id"));
}

TEST_CASE("a tree of tokens finds what a text begins with", "[data]") {
  const auto found = [](const TokenTree& tree, std::string_view text) {
    std::vector<std::pair<size_t, int32_t>> out;
    tree.for_each_prefix(text, [&](size_t length, int32_t id) { out.emplace_back(length, id); });
    return out;
  };
  using Found = std::vector<std::pair<size_t, int32_t>>;
  const TokenTree tree({{"", 9}, {"a", 1}, {"abc", 2}, {"b", 3}, {"ba", 4}, {"\xff", 5}});
  CHECK(found(tree, "abcd") == Found{{1, 1}, {3, 2}});
  CHECK(found(tree, "ba") == Found{{1, 3}, {2, 4}});
  CHECK(found(tree, "\xff") == Found{{1, 5}});
  CHECK(found(tree, "c").empty());  // not even the empty token
  CHECK(tree.longest_prefix("abab") == 1);
  CHECK(tree.longest_prefix("") == 0);
  CHECK(found(TokenTree({{"", 9}}), "a").empty());
  CHECK(TokenTree().longest_prefix("a") == 0);
}

TEST_CASE("tokens that are too many bytes together are refused", "[data]") {
  const std::string half(TokenTree::kMostBytes / 2, 'a');
  const auto build = [&] { TokenTree({{half, 0}, {"b" + half, 1}}); };
  CHECK_THROWS_AS(build(), DataError);
  CHECK_THROWS_WITH(build(), Catch::Contains("16777217 bytes together, expected at most 16777216"));
}

TEST_CASE("what has no token is its bytes, where all of them are tokens", "[data]") {
  std::vector<ScoredToken> tokens{{"<unk>", 0}, {"a", -1}};
  const auto some = unigram(tokens, {.unknown = 0, .byte_fallback = true});
  CHECK(encode(*some, "aé") == Ids{1, 0});
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({fmt::format("<0x{:02X}>", byte), 0});
  const auto all = unigram(tokens, {.unknown = 0, .byte_fallback = true});
  CHECK(encode(*all, "aéa") == Ids{1, 2 + 0xc3, 2 + 0xa9, 1});
}

TEST_CASE("pairs of characters: bytes, unknown ones and affixes", "[data]") {
  using Form = BytePairForm;
  const Form plain{.units = Form::Units::kCharacters, .unknown = "<u>"};
  const Vocabulary letters{{"<u>", 0}, {"a", 1}, {"é", 2}, {"aé", 3}};
  BytePairEncoder model(plain, letters);
  model.add_merge("a", "é");
  CHECK(encode(model, "aéa") == Ids{3, 1});
  CHECK(encode(model, "axya") == Ids{1, 0, 0, 1});
  Form fused = plain;
  fused.fuse_unknown = true;
  CHECK(encode(BytePairEncoder(fused, letters), "axyaz") == Ids{1, 0, 1, 0});
  Form bytes = fused;
  bytes.byte_fallback = true;
  // An unknown token waits for what it may be joined with while bytes go by.
  CHECK(encode(BytePairEncoder(bytes, {{"<u>", 0}, {"<0x79>", 7}, {"a", 1}}), "xyxa") ==
        Ids{7, 0, 1});
  CHECK(encode(BytePairEncoder(bytes, with_bytes(letters)), "x漢") ==
        Ids{1000 + 'x', 1000 + 0xe6, 1000 + 0xbc, 1000 + 0xa2});
  Form none = plain;
  none.unknown.reset();
  CHECK_THROWS_WITH(encode(BytePairEncoder(none, letters), "x"),
                    Catch::Contains("'x' is not in the vocabulary"));
  Form ends{.units = Form::Units::kCharacters, .suffix = "$"};
  BytePairEncoder words(ends, {{"a", 0}, {"b$", 1}, {"ab$", 2}, {"b", 3}});
  words.add_merge("a", "b$");
  CHECK(encode(words, "ab") == Ids{2});
  CHECK(encode(words, "abb") == Ids{0, 3, 1});
  Form inside{.units = Form::Units::kCharacters, .prefix = "@"};
  BytePairEncoder pieces(inside, {{"a", 0}, {"@b", 1}, {"ab", 2}});
  pieces.add_merge("a", "@b");
  CHECK(encode(pieces, "abb") == Ids{2, 1});
}

TEST_CASE("pieces may be cut before a sign that stands in no token but at its beginning",
          "[data]") {
  using Form = BytePairForm;
  const Form form{.units = Form::Units::kCharacters};
  const Vocabulary tokens{{"_", 0}, {"a", 1}, {"_a", 2}, {"__", 3}, {"a_", 4}};
  BytePairEncoder model(form, tokens);
  model.add_merge("_", "a");
  model.add_merge("_", "_");
  CHECK(model.may_cut_before("_"));
  CHECK_FALSE(model.may_cut_before("+"));  // is no token, and might be part of an unknown one
  model.add_merge("a", "_");
  CHECK_FALSE(model.may_cut_before("_"));
  Form whole = form;
  whole.whole = Form::WholePieces::kLookUpFirst;
  CHECK_FALSE(BytePairEncoder(whole, tokens).may_cut_before("_"));
  CHECK_FALSE(BytePairEncoder(Form{}, tokens).may_cut_before("_"));
}
