// Normalizers, each by itself, and tables that lie.
#include "data/tokenizer/normalize/normalizer.h"

#include <cstring>

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;

namespace {

std::string made_by(const std::unique_ptr<Normalizer>& normalizer, std::string_view text) {
  PatternWork work(text.size());
  return normalizer->apply(text, work);
}

// A table with the one replacement of "a" by "bc".
std::string table_of_one() {
  // The root's offset is 1 << 8, so that its children lie in the next block.
  std::vector<uint32_t> units(0x300, 0);
  const auto offset = [](uint32_t value) { return value << 10; };
  units[0] = offset(0x100);
  units[0x100 ^ 'a'] = static_cast<uint32_t>('a') | 1U << 8 | offset(0x300 ^ (0x100 ^ 'a'));
  units.resize(0x301, 0);
  units[0x300] = 1U << 31 | 4;  // its replacement begins at byte 4
  const auto bytes = static_cast<uint32_t>(units.size() * sizeof(uint32_t));
  std::string table(sizeof(bytes) + bytes, '\0');
  std::memcpy(table.data(), &bytes, sizeof(bytes));
  std::memcpy(table.data() + sizeof(bytes), units.data(), bytes);
  return table + std::string("xyz\0bc\0", 7);
}

}  // namespace

TEST_CASE("each normalizer by itself", "[data]") {
  CHECK(made_by(lowercase(), "ÀB c") == "àb c");
  CHECK(made_by(strip_accents(), "e\u0301\u0903x") == "ex");
  CHECK(made_by(strip({}), " \u3000a b\n") == "a b");
  CHECK(made_by(strip({.left = false}), " a ") == " a");
  CHECK(made_by(strip({.right = false}), " a ") == "a ");
  CHECK(made_by(prepend("_"), "a") == "_a");
  CHECK(made_by(prepend("_"), "").empty());
  CHECK(made_by(nmt(), "a\u200bb\x01\tc\u00a0") == "a b c\u00a0");
  CHECK(made_by(byte_letters(), "é ") == "Ã©Ġ");
  CHECK(made_by(replace(std::make_shared<Literal>("aa"), "b"), "aaaca") == "baca");
  CHECK(made_by(replace(std::make_shared<Regex>(" {2,}"), " "), "a   b  ") == "a b ");
  CHECK(made_by(replace(std::make_shared<Regex>("^"), "_"), "ab") == "_ab");
  Normalizers both;
  both.push_back(lowercase());
  both.push_back(prepend("A"));
  PatternWork work(2);
  CHECK(normalize(both, "BC", work) == "Abc");
}

TEST_CASE("a table's replacement of more than a kibibyte is refused", "[data]") {
  std::string table = table_of_one();
  const size_t end = table.size() - 1;
  CHECK(made_by(precompiled(table), "xax") == "xbcx");
  table.insert(end, 1022, 'c');
  CHECK(made_by(precompiled(table), "a").size() == 1024);
  CHECK_THROWS_AS(made_by(precompiled(table), std::string(10'000, 'a')), DataError);  // it grows
  table.insert(end, 1, 'c');
  CHECK_THROWS_WITH(made_by(precompiled(table), "a"),
                    Catch::Contains("a replacement of more than 1024 bytes"));
}

TEST_CASE("normalizers tell what is left of a text's first character", "[data]") {
  const auto beginning = [](std::unique_ptr<Normalizer> first, std::unique_ptr<Normalizer> second,
                            std::string_view text) {
    Normalizers both;
    if (first != nullptr) both.push_back(std::move(first));
    if (second != nullptr) both.push_back(std::move(second));
    PatternWork work(text.size());
    const NormalizedText made = normalize_with_beginning(both, text, work);
    CHECK(made.text == normalize(both, text, work));
    return made.text.substr(0, made.beginning) + "|" + made.text.substr(made.beginning);
  };
  const auto spaces = [](const char* content) {
    return replace(std::make_shared<Regex>(" +"), content);
  };
  CHECK(beginning(nullptr, nullptr, "\u00e9a") == "\u00e9|a");
  CHECK(beginning(unicode_form(unicode::Form::kNfd), nullptr, "\u00e9a") == "e\u0301|a");
  CHECK(beginning(unicode_form(unicode::Form::kNfc), nullptr, "e\u0301a") == "\u00e9|a");
  CHECK(beginning(strip({}), nullptr, " a ") == "|a");
  CHECK(beginning(strip({.left = false}), nullptr, " a ") == " |a");
  CHECK(beginning(strip_accents(), prepend("_"), "\u0301a") == "|_a");
  CHECK(beginning(prepend("__"), lowercase(), "Ab") == "__a|b");
  CHECK(beginning(spaces("_"), nullptr, " a") == "_|a");
  CHECK(beginning(spaces("_"), nullptr, "  a") == "|_a");  // it stands for the last of them
  CHECK(beginning(spaces(""), nullptr, " a") == "|a");
  CHECK(beginning(bert_normalizer({}), nullptr,
                  "\x01"
                  "a") == "|a");
  CHECK(beginning(precompiled(table_of_one()), nullptr, "ab") == "bc|b");
}

TEST_CASE("a text does not grow without end", "[data]") {
  const auto grows = [] {
    Normalizers many;
    for (int i = 0; i < 40; ++i)
      many.push_back(replace(std::make_shared<Literal>("a"), std::string(4, 'a')));
    PatternWork work(10);
    return normalize(many, "aaaaaaaaaa", work);
  };
  CHECK_THROWS_WITH(grows(), Catch::Contains("bytes of a text of 10"));
  CHECK_THROWS_AS(made_by(replace(std::make_shared<Literal>("a"), std::string(100'000, 'b')),
                          std::string(1000, 'a')),
                  DataError);
}

TEST_CASE("BERT's normalizer cleans, parts, and takes accents away", "[data]") {
  CHECK(made_by(bert_normalizer({}), "H\u00c9\tl\u0000\ufffdo 你\u200d") == "he l");
  CHECK(made_by(bert_normalizer({}), std::string("\u00c9\0\t你\u200d", 9)) == "e  你 ");
  CHECK(made_by(bert_normalizer({.strip_accents = false}), "\u00c9") == "\u00e9");
  CHECK(made_by(bert_normalizer({.lowercase = false}), "\u00c9") == "E");
  CHECK(made_by(bert_normalizer({.clean_text = false, .handle_chinese_chars = false}), "\t你") ==
        "\t你");
}

TEST_CASE("a table of replacements goes by prefixes, and never beyond itself", "[data]") {
  const auto normalizer = precompiled(table_of_one());
  CHECK(made_by(normalizer, "xax") == "xbcx");
  CHECK(made_by(normalizer, "a\u0301") == "bc");  // the first prefix stands for the whole character
  CHECK(made_by(normalizer, "a\u0301\u0302\u0303") == "bc\u0301\u0302\u0303");
  CHECK(made_by(normalizer, std::string(1, '\0')) == std::string(1, '\0'));
  CHECK_THROWS_AS(precompiled(""), DataError);
  CHECK_THROWS_WITH(precompiled(std::string("\xff\xff\xff\x7f....", 8)),
                    Catch::Contains("which are not there"));
  CHECK_THROWS_AS(precompiled(std::string("\3\0\0\0....", 8)), DataError);
  std::string beyond = table_of_one();
  beyond[4 + 3] = '\x7f';  // the offset of the root
  CHECK_THROWS_WITH(made_by(precompiled(beyond), "a"), Catch::Contains("beyond its end"));
  std::string inside = table_of_one();
  inside[inside.size() - 3] = '\xA9';
  CHECK_THROWS_WITH(precompiled(inside), Catch::Contains("are no UTF-8"));
  std::string lost = table_of_one();
  lost[4 + 0x300 * 4 + 1] = '\x7f';  // where the replacement begins
  CHECK_THROWS_WITH(made_by(precompiled(lost), "a"),
                    Catch::Contains("a replacement beyond its end"));
}
