// Decoders, each by itself.
#include "data/tokenizer/decode/token_decoder.h"

#include "tests/support/catch.h"

using namespace ds;

namespace {

std::string decoded(const std::unique_ptr<TokenDecoder>& decoder, std::vector<std::string> tokens) {
  PatternWork work(16);
  decoder->apply(tokens, work);
  std::string out;
  for (const std::string& token : tokens) out += "[" + token + "]";
  return out;
}

}  // namespace

TEST_CASE("each decoder by itself", "[data]") {
  CHECK(decoded(decode_byte_letters(), {"Ġa", "<|a b|>", "Ã", "©"}) == "[ a<|a b|>é]");
  CHECK(decoded(decode_space_sign("_", true), {"_a", "_b", "c_"}) == "[a][ b][c ]");
  CHECK(decoded(decode_space_sign("_", false), {"_a"}) == "[ a]");
  CHECK(decoded(join_tokens(), {"a", "b"}) == "[ab]");
  CHECK(decoded(join_with_spaces(), {"a", "b"}) == "[a b]");
  CHECK(decoded(decode_strip("x", 2, 1), {"xxxa", "axx", "x", "xx"}) == "[xa][ax][][]");
  CHECK(decoded(decode_replace(std::make_shared<Literal>("_"), " "), {"_a_", "b"}) == "[ a ][b]");
  CHECK(decoded(decode_suffix("</w>"), {"a", "b</w>", "c</w>"}) == "[a][b ][c]");
}

TEST_CASE("tokens of bytes become characters, or signs that none came of them", "[data]") {
  CHECK(decoded(decode_byte_tokens(), {"a", "<0xC3>", "<0xA9>", "b"}) == "[a][\u00e9][b]");
  CHECK(decoded(decode_byte_tokens(), {"<0xC3>", "b"}) == "[\uFFFD][b]");
  CHECK(decoded(decode_byte_tokens(), {"<0x61>", "<0xC3>", "b"}) == "[\uFFFD][\uFFFD][b]");
  CHECK(decoded(decode_byte_tokens(), {"b", "<0xC3>"}) == "[b][\xC3]");  // more may come
  CHECK(decoded(decode_byte_tokens(), {"<0xGG>", "<0x1>", "<0xC3"}) == "[<0xGG>][<0x1>][<0xC3]");
}

TEST_CASE("word pieces are joined, and English is tidied", "[data]") {
  CHECK(decoded(decode_word_piece("##", true), {"do", "n", "'", "t", "##s", ".", "n't"}) ==
        "[do][ n][ '][ t][s][.][n't]");
  CHECK(decoded(decode_word_piece("##", false), {"##a", "##b", "."}) == "[##a][b][ .]");
}
