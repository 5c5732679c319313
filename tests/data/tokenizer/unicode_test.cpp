// Kinds of characters and normal forms: what Unicode says, and where the reference differs from it.
#include "data/tokenizer/text/unicode.h"

#include "data/tokenizer/text/byte_letters.h"
#include "data/tokenizer/text/unicode_of_reference.h"
#include "tests/support/catch.h"

using namespace ds;

TEST_CASE("kinds of characters are Unicode's", "[data]") {
  CHECK(unicode::is_white_space(U'\u3000'));
  CHECK(unicode::is_white_space(0x85));
  CHECK_FALSE(unicode::is_white_space(0x180e));  // since Unicode 6.3
  CHECK_FALSE(unicode::is_white_space(0x200b));
  CHECK(unicode::is_mark(0x903));  // takes room
  CHECK_FALSE(unicode::is_nonspacing_mark(0x903));
  CHECK(unicode::is_nonspacing_mark(0x301));
  CHECK(unicode::is_number(U'½'));
  CHECK(unicode::is_number(U'Ⅷ'));
  CHECK_FALSE(unicode::is_number(U'一'));
  CHECK(unicode::is_word(U'_'));
  CHECK(unicode::is_word(U'ⓐ'));
  CHECK(unicode::is_word(0x200d));
  CHECK_FALSE(unicode::is_word(U'½'));
  CHECK(unicode::is_punctuation(U'+'));  // a sign of ASCII, though Unicode calls it a symbol
  CHECK(unicode::is_punctuation(U'“'));
  CHECK_FALSE(unicode::is_punctuation(U'€'));
  CHECK(unicode::is_other(0x7f));
  CHECK(unicode::is_other(0xe000));
  CHECK_FALSE(unicode::is_other(0x378));  // no character yet
}

TEST_CASE("the reference's tables are older for signs and marks, newer for letters", "[data]") {
  CHECK_FALSE(unicode::is_punctuation(0x2e4b));  // of Unicode 11
  CHECK(unicode::is_punctuation(0x166d));        // a symbol since Unicode 12
  CHECK_FALSE(unicode::is_nonspacing_mark(0x1abf));
  CHECK(unicode::is_word(0x2ebf0));  // of Unicode 15.1
  CHECK(unicode::is_number(0x1ccf0));
  std::string small;
  unicode::append_lower(0xa7cb, small);
  CHECK(small == "\u0264");
  for (const auto* table : {&unicode::kOtherwiseMark[0], &unicode::kOtherwisePunctuation[0]})
    CHECK(table[0].last < table[1].first);  // ascending, or none is found
  CHECK(unicode::is_within(unicode::kOtherwiseMark, 0x7fd));
  CHECK_FALSE(unicode::is_within(unicode::kOtherwiseMark, 0x7fc));
  CHECK_FALSE(unicode::is_within(unicode::kOtherwiseMark, 0));
}

TEST_CASE("normal forms", "[data]") {
  using unicode::Form;
  CHECK(unicode::normalized("e\u0301 \ufb01", Form::kNfc) == "\u00e9 \ufb01");
  CHECK(unicode::normalized("\u00e9 \ufb01", Form::kNfd) == "e\u0301 \ufb01");
  CHECK(unicode::normalized("e\u0301 \ufb01\u00b2", Form::kNfkc) == "\u00e9 fi2");
  CHECK(unicode::normalized("\u00e9\ufb01", Form::kNfkd) == "e\u0301fi");
  CHECK(unicode::normalized("\uac00", Form::kNfd) == "\u1100\u1161");
  CHECK(unicode::normalized("plain", Form::kNfkd) == "plain");
  // Unicode 12 took it apart; the reference knows nothing of it.
  CHECK(unicode::normalized("\u32ffe\u0301", Form::kNfkc) == "\u32ff\u00e9");
  CHECK(unicode::normalized("\U00011938", Form::kNfd) == "\U00011938");
}

TEST_CASE("many marks on one letter are sorted in time", "[data]") {
  constexpr int kMarks = 100'000;  // neighbours that are exchanged one by one would take an hour
  std::string text = "a", sorted = "a";
  for (int i = 0; i < kMarks; ++i) text += "\u0315";
  for (int i = 0; i < kMarks; ++i) text += "\u0316";
  for (int i = 0; i < kMarks; ++i) sorted += "\u0316";
  for (int i = 0; i < kMarks; ++i) sorted += "\u0315";
  CHECK((unicode::normalized(text, unicode::Form::kNfd) == sorted));
}

TEST_CASE("small letters go by the letter alone", "[data]") {
  const auto lower = [](char32_t c) {
    std::string out;
    unicode::append_lower(c, out);
    return out;
  };
  CHECK(lower(U'A') == "a");
  CHECK(lower(U'Σ') == "σ");
  CHECK(lower(U'ẞ') == "ß");
  CHECK(lower(0x130) == "i\u0307");
  CHECK(lower(U'1') == "1");
}

TEST_CASE("ends of characters and of white space", "[data]") {
  CHECK(unicode::grapheme_bytes("e\u0301x") == 3);
  CHECK(unicode::grapheme_bytes("👩‍👩‍👧!") == std::string("👩‍👩‍👧").size());
  CHECK(unicode::grapheme_bytes("\r\n") == 2);
  CHECK(unicode::space_before("a \u3000") == 1);
  CHECK(unicode::space_before("   ") == 0);
  CHECK(unicode::space_before("a\u00e9") == 3);
  CHECK(unicode::space_after(" \u00a0a") == 3);
  CHECK(unicode::last_character("a\u00e9") == 0xe9);
}

TEST_CASE("every byte has a letter, and letters give bytes back", "[data]") {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  const std::string letters = to_byte_letters(bytes);
  CHECK(from_byte_letters(letters) == bytes);
  CHECK(to_byte_letters(" a\n") == "ĠaĊ");
  CHECK_FALSE(from_byte_letters("a b").has_value());
  CHECK_FALSE(from_byte_letters("漢").has_value());
}
