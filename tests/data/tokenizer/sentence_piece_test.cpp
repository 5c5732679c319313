// Models of SentencePiece: ids, and texts that come back, equal those of the reference
// implementation; what a model and the files beside it may say; and what is said of bad ones.
#include <rapidjson/document.h>

#include <cmath>
#include <cstring>
#include <sstream>

#include "core/text/utf8.h"
#include "data/tokenizer/forms/sentence_piece_model.h"
#include "data/tokenizer/special_tokens.h"
#include "data/tokenizer/text/base64.h"
#include "data/tokenizer/token_stream.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_frame.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/golden.h"

using namespace ds;

namespace {

using Ids = std::vector<int32_t>;
using Catch::Contains;
using Kind = SentencePieces::Kind;

std::string from_hex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return out;
}

// FNV-1a of the ids and the text.
std::string digest_of(const Ids& ids, const std::string& text) {
  uint64_t out = 0xCBF29CE484222325;
  for (const char c : fmt::format("{}|{}", fmt::join(ids, ","), text))
    out = (out ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return fmt::format("{:016x}", out);
}

void put(MemoryFileSystem& fs, const std::string& path, const std::string& bytes) {
  fs.create(path)->write(0, std::as_bytes(std::span(bytes)));
}

std::unique_ptr<Tokenizer> loaded(const std::string& model) {
  MemoryFileSystem fs;
  put(fs, "/small.model", model);
  return make_tokenizer(fs, "/small.model");
}

std::string refusal_of(const std::string& model) {
  try {
    loaded(model);
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

struct Decoded {
  Ids ids;
  std::string text;
};
struct Model {
  std::string name;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::string> digests;
  std::vector<Decoded> decoded;
};
struct Models {
  std::vector<std::string> texts;
  std::vector<Model> all;
};

Models read_models(const std::string& path) {
  RealFileSystem fs;
  std::istringstream lines(fs.read_text(path, 1 << 28));
  Models out;
  for (std::string line; std::getline(lines, line);) {
    rapidjson::Document document;
    REQUIRE_FALSE(document.Parse(line.c_str()).HasParseError());
    if (document.HasMember("texts")) {
      for (const auto& hex : document["texts"].GetArray())
        out.texts.push_back(from_hex(hex.GetString()));
      continue;
    }
    Model model{.name = document["name"].GetString(),
                .tokenizer = loaded(from_base64(document["model"].GetString()).value()),
                .digests = {},
                .decoded = {}};
    for (const auto& digest : document["digests"].GetArray())
      model.digests.emplace_back(digest.GetString());
    for (const auto& pair : document["decoded"].GetArray()) {
      Decoded decoded{.ids = {}, .text = {pair[1].GetString(), pair[1].GetStringLength()}};
      for (const auto& id : pair[0].GetArray()) decoded.ids.push_back(id.GetInt());
      model.decoded.push_back(std::move(decoded));
    }
    out.all.push_back(std::move(model));
  }
  return out;
}

const Models& models() {
  static const Models read_once =
      read_models(testing::source_directory() + "/tests/data/tokenizer/golden/pieces.jsonl");
  return read_once;
}

// The fields of a message of Protocol Buffers.
std::string number(unsigned field, uint64_t value) {
  std::string out(1, static_cast<char>(field << 3));
  if (field > 15)
    out = {static_cast<char>((field << 3 & 0x7fU) | 0x80U), static_cast<char>(field >> 4)};
  while (value > 127) {
    out.push_back(static_cast<char>((value & 0x7fU) | 0x80U));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
  return out;
}
std::string bytes(unsigned field, const std::string& value) {
  std::string out = number(field, value.size());
  out[0] = static_cast<char>(static_cast<unsigned char>(out[0]) | 2U);
  return out + value;
}
std::string piece(const std::string& text, float score = 0, Kind kind = Kind::kNormal) {
  std::string bits(sizeof(score), '\0');
  std::memcpy(bits.data(), &score, sizeof(score));
  return bytes(1, bytes(1, text) + "\x15" + bits + number(3, static_cast<uint64_t>(kind)));
}
const std::string kFirst = piece("<unk>", 0, Kind::kUnknown) + piece("<s>", 0, Kind::kControl) +
                           piece("</s>", 0, Kind::kControl);
// "\u2581a", "b" and "\u2581ab"; pairs by their scores.
const std::string kSmall = kFirst + piece("\u2581", -5) + piece("a", -6) + piece("b", -7) +
                           piece(
                               "\u2581"
                               "a",
                               -1) +
                           piece(
                               "\u2581"
                               "ab",
                               -2) +
                           bytes(2, number(3, 2)) + bytes(3, number(4, 0));

}  // namespace

TEST_CASE("models of SentencePiece agree with the reference implementation", "[data]") {
  REQUIRE(models().all.size() > 15);
  REQUIRE(models().texts.size() > 100);
  for (const Model& model : models().all) {
    REQUIRE(model.digests.size() == models().texts.size());
    for (size_t i = 0; i < models().texts.size(); ++i) {
      const std::string& text = models().texts[i];
      INFO(model.name << ": '" << text << "'");
      const Ids ids = model.tokenizer->encode(text);
      CHECK(digest_of(ids, as_utf8(model.tokenizer->decode(ids))) == model.digests[i]);
    }
    for (const Decoded& decoded : model.decoded) {
      INFO(model.name << ": " << fmt::format("{}", fmt::join(decoded.ids, ",")));
      CHECK(as_utf8(model.tokenizer->decode(decoded.ids)) == decoded.text);
    }
  }
}

TEST_CASE("pieces that come one by one are the text of all of them", "[data]") {
  for (const Model& model : models().all) {
    for (const std::string& text : models().texts) {
      const Ids ids = model.tokenizer->encode(text);
      if (ids.size() > 200) continue;
      INFO(model.name << ": '" << text << "'");
      TokenStream stream(*model.tokenizer);
      std::string shown;
      for (const int32_t id : ids) shown += stream.add(id);
      shown += stream.finish();
      CHECK(shown == model.tokenizer->decode(ids));
    }
  }
}

TEST_CASE("a model of SentencePiece is found, and its roles are known", "[data]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  put(fs, "/m/tokenizer.model", kSmall);
  CHECK(find_tokenizer(fs, "/m") == "/m/tokenizer.model");
  const auto tokenizer = make_tokenizer(fs, "/m");
  CHECK(tokenizer->vocab_size() == 8);
  CHECK(tokenizer->encode("ab a") == Ids{7, 6});
  CHECK(tokenizer->encode("a</s>a") == Ids{6, 2, 6});
  CHECK(tokenizer->encode("<unk>") == Ids{3, 0});  // in no text
  CHECK(tokenizer->decode(Ids{6, 2, 0, 5}) == "a</s> \u2047 b");
  CHECK(eos_token(fs, "/m") == "</s>");
  CHECK(token_of_role(fs, "/m/tokenizer.model", "bos_token") == "<s>");
  CHECK_FALSE(token_of_role(fs, "/m", "pad_token"));
  CHECK(special_tokens(fs, "/m") == std::map<std::string, int32_t>{{"<s>", 1}, {"</s>", 2}});
  CHECK(read_frame(fs, "/m", *tokenizer).before.empty());
  CHECK(tokenizer_files(fs, "/m") ==
        std::map<std::string, std::string>{{"tokenizer.model", "/m/tokenizer.model"}});
  put(fs, "/m/own.model", kSmall);
  put(fs, "/m/tokenizer.json", "{}");
  CHECK(find_tokenizer(fs, "/m") == "/m/tokenizer.json");
  // Else the file beside it would be taken for what was named.
  CHECK(tokenizer_files(fs, "/m/own.model") ==
        std::map<std::string, std::string>{{"tokenizer.model", "/m/own.model"}});
}

TEST_CASE("a class says what is put around the texts of a model of SentencePiece", "[data]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  put(fs, "/m/tokenizer.model", kSmall);
  const auto frame = [&](const std::string& config) {
    fs.write_text_atomically("/m/tokenizer_config.json", config);
    const TokenizerFrame read = read_frame(fs, "/m", *make_tokenizer(fs, "/m"));
    return std::pair(read.before, read.after);
  };
  using Sides = std::pair<Ids, Ids>;
  CHECK(frame(R"({"tokenizer_class": "LlamaTokenizer"})") == Sides{{1}, {}});
  CHECK(frame(R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": false})") == Sides{});
  CHECK(frame(R"({"tokenizer_class": "LlamaTokenizerFast", "add_eos_token": true,)"
              R"( "eos_token": "</s>"})") == Sides{{1}, {2}});
  CHECK(frame(R"({"tokenizer_class": "PreTrainedTokenizerFast"})") == Sides{});
  CHECK(frame(R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 2})") == Sides{{}, {2}});
  CHECK(make_tokenizer(fs, "/m")->encode("a<extra_id_0>") == Ids{6, 9});
  CHECK(make_tokenizer(fs, "/m")->vocab_size() == 10);
  CHECK(frame(R"({"tokenizer_class": "XLMRobertaTokenizer"})") == Sides{{0}, {2}});
  const auto fairseq = make_tokenizer(fs, "/m");
  CHECK(fairseq->encode("ab<mask> ?") == Ids{8, 9, 4, 4, 3});
  CHECK(fairseq->encode("<pad>") == Ids{1});
  CHECK_THROWS_WITH(frame(R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 20000})"),
                    Contains("20000 extra_ids"));
  CHECK_THROWS_AS(frame(R"({"tokenizer_class": "CamembertTokenizer"})"), Unsupported);
  CHECK_THROWS_WITH(frame(R"({"tokenizer_class": "CamembertTokenizer"})"),
                    Contains("of \"CamembertTokenizer\"") && Contains("save_pretrained"));
  CHECK_THROWS_WITH(frame(R"({"bos_token": "<nowhere>"})"),
                    Contains("its bos_token \"<nowhere>\""));
  fs.write_text_atomically("/m/tokenizer_config.json", "{}");
  fs.write_text_atomically("/m/config.json", R"({"model_type": "albert"})");
  CHECK_THROWS_WITH(make_tokenizer(fs, "/m"), Contains("of \"albert\""));
  fs.write_text_atomically("/m/config.json", R"({"model_type": "gpt2"})");  // says nothing of it
  CHECK(make_tokenizer(fs, "/m")->encode("a") == Ids{6});
}

TEST_CASE("added tokens of a model of SentencePiece, and what begins behind them", "[data]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  put(fs, "/m/tokenizer.model", kSmall);
  const auto with = [&](const std::string& more) {
    fs.write_text_atomically("/m/tokenizer_config.json",
                             R"({"tokenizer_class": "LlamaTokenizer")" + more + "}");
    return make_tokenizer(fs, "/m");
  };
  CHECK(with("")->encode("a<s>a a") == Ids{6, 1, 4, 6});  // the second part does not begin a text
  CHECK(with(R"(, "legacy": true)")->encode("a<s>a a") == Ids{6, 1, 6, 6});
  CHECK(with("")->encode("<unk>") == Ids{0});
  CHECK(with("")->decode(Ids{0}) == "<unk>");
  const auto added = with(R"(, "added_tokens_decoder": {"5": {"content": "<x>", "special": true},)"
                          R"( "9": {"content": "new", "normalized": true, "lstrip": true}})");
  CHECK(added->encode("a <x>  new") == Ids{6, 3, 5, 9});
  CHECK(added->encode("ab") == Ids{7});
  CHECK(added->encode("b") == Ids{3, 0});  // its piece is another token now
  CHECK(added->decode(Ids{5, 9}) == "<x>new");
  CHECK(special_tokens(fs, "/m").at("<x>") == 5);
  CHECK_FALSE(special_tokens(fs, "/m").contains("new"));
}

TEST_CASE("what the files beside a model say in the wrong way is refused", "[data]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  put(fs, "/m/tokenizer.model", kSmall);
  const auto with = [&](const std::string& file, const std::string& text) -> std::string {
    fs.write_text_atomically("/m/" + file, text);
    std::string out = "taken";
    try {
      make_tokenizer(fs, "/m");
    } catch (const DataError& error) {
      out = error.what();
    }
    fs.write_text_atomically("/m/" + file, "{}");
    return out;
  };
  const auto decoder = [&](const std::string& list) {
    return with("tokenizer_config.json", R"({"added_tokens_decoder": )" + list + "}");
  };
  CHECK(decoder("null") == "taken");
  CHECK(decoder(R"({"8": {"content": "<x>", "special": null}})") == "taken");
  for (const char* key : {"x", "", "8x", " 8", "+8", "-1", "2147483648", "99999999999999999999"}) {
    CAPTURE(key);
    CHECK_THAT(
        decoder(fmt::format(R"({{"{}": {{"content": "<x>"}}}})", key)),
        Contains(fmt::format("/m/tokenizer_config.json: the key \"added_tokens_decoder.{}\" is not "
                             "an id, expected 0 to 2147483647",
                             key)));
  }
  CHECK_THAT(decoder("[]"), Contains("\"added_tokens_decoder\" is not an object"));
  for (const char* token : {R"("<x>")", "{}", R"({"content": 5})"}) {
    CAPTURE(token);
    CHECK_THAT(decoder(fmt::format(R"({{"8": {}}})", token)),
               Contains("\"added_tokens_decoder.8\" is not an object whose \"content\" is a text"));
  }
  CHECK_THAT(decoder(R"({"8": {"content": "<x>", "lstrip": "no"}})"),
             Contains("\"added_tokens_decoder.8.lstrip\" is not true or false"));
  CHECK_THAT(with("tokenizer_config.json", R"({"legacy": "no"})"),
             Contains("/m/tokenizer_config.json: \"legacy\" is not true or false"));
  CHECK_THAT(
      with("tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 2.5})"),
      Contains("/m/tokenizer_config.json: \"extra_ids\" is not an integer"));
  CHECK_THAT(with("tokenizer_config.json", R"({"eos_token": 2})"),
             Contains("\"eos_token\" is not a text, or an object whose"));
  CHECK_THAT(with("tokenizer_config.json", R"({"tokenizer_class": 5})"),
             Contains("\"tokenizer_class\" is not a text"));
  CHECK_THAT(with("config.json", R"({"model_type": []})"),
             Contains("/m/config.json: \"model_type\" is not a text"));
  CHECK(with("added_tokens.json", R"({"<x>": 8})") == "taken");
  for (const char* id : {"\"8\"", "8.0", "-1", "2147483648"}) {
    CAPTURE(id);
    CHECK_THAT(with("added_tokens.json", fmt::format(R"({{"<x>": {}}})", id)),
               Contains("/m/added_tokens.json: \"<x>\" is not an id, expected 0 to 2147483647"));
  }
}

TEST_CASE("what is no model of SentencePiece is refused", "[data]") {
  CHECK(refusal_of(kSmall) == "taken");
  CHECK(refusal_of(kSmall + number(9, 5) + bytes(200, "x")) == "taken");  // what others add
  CHECK_THAT(refusal_of(""), Contains("/small.model: no model of SentencePiece: it has no pieces"));
  CHECK_THAT(refusal_of(std::string(1, '\0')), Contains("0 is no number of a field"));
  CHECK_THAT(refusal_of("\x0b"), Contains("field 1 is of wire type 3"));
  CHECK_THAT(refusal_of("\x0a\x7fxy"), Contains("a field of 127 bytes, of which 2 are there"));
  CHECK_THAT(refusal_of("\x0a" + std::string(11, '\xff')), Contains("more than 64 bits"));
  CHECK_THAT(refusal_of("\x0a"), Contains("a field of 1 bytes, of which 0 are there"));
  CHECK_THAT(refusal_of(number(1, 5)), Contains("field 1 is of wire type 0, expected bytes"));
  CHECK_THAT(refusal_of(bytes(1, number(1, 5))), Contains("a piece: field 1 is of wire type 0"));
  CHECK_THAT(refusal_of(bytes(1, number(2, 5))), Contains("expected a number of 32 bits"));
  CHECK_THAT(refusal_of(bytes(1, bytes(1, "a") + number(3, 9))), Contains("of type 9"));
  CHECK_THAT(refusal_of(kFirst + bytes(2, number(3, 5))), Contains("model_type is 5"));
  CHECK_THAT(refusal_of(piece("\xff")), Contains("the text of a piece is no UTF-8"));
  CHECK_THAT(refusal_of(piece("a", INFINITY)), Contains("is no finite number"));
  CHECK_THAT(refusal_of(kFirst), Contains("no pieces that texts are cut into"));
  CHECK_THAT(refusal_of(piece("a")), Contains("none of its pieces is the unknown one"));
  CHECK_THAT(refusal_of(kFirst + piece("?", 0, Kind::kUnknown)),
             Contains("piece 3 is unknown, as 0 is"));
  CHECK_THAT(refusal_of(kFirst + piece("a") + piece("a", 0, Kind::kUnused)),
             Contains("piece 4 is 'a', as one before it is"));
  CHECK_THAT(refusal_of(kFirst + piece("")), Contains("piece 3 is empty"));
  CHECK_THAT(refusal_of(kFirst + piece(std::string(1025, 'a'))), Contains("piece 3 is longer"));
  CHECK_THAT(refusal_of(kFirst + piece(std::string(1, '\0'))), Contains("has a zero byte"));
  CHECK_THAT(refusal_of(kSmall + piece("<0x41>", 0, Kind::kByte)), Contains("piece 8 is a byte"));
  CHECK_THAT(refusal_of(kSmall + bytes(2, number(35, 1))),
             Contains("pieces of some bytes are missing"));
  CHECK_THAT(refusal_of(kSmall + bytes(3, bytes(2, "xyz"))), Contains("too short for a table"));
  CHECK_THAT(refusal_of(kSmall + bytes(5, bytes(2, "xyz"))),
             Contains("denormalizer_spec.precompiled_charsmap is not supported"));
}

TEST_CASE("a hostile table of replacements ends, wherever it leads", "[data]") {
  const auto with = [](std::vector<uint32_t> units) {
    std::string table(sizeof(uint32_t) * (units.size() + 1), '\0');
    const auto bytes_of_units = static_cast<uint32_t>(units.size() * sizeof(uint32_t));
    std::memcpy(table.data(), &bytes_of_units, sizeof(uint32_t));
    std::memcpy(table.data() + sizeof(uint32_t), units.data(), bytes_of_units);
    return loaded(kSmall + bytes(3, bytes(2, table)));
  };
  // Every unit leads back to a unit that says so again.
  const auto endless = with(std::vector<uint32_t>(256, 0x61));
  CHECK(endless->encode(std::string(128, 'a')).size() == 128);
  CHECK_THROWS_AS(endless->encode(std::string(129, 'a')), DataError);
  CHECK_THROWS_WITH(endless->encode(std::string(size_t{1} << 20, 'a')),
                    Contains("precompiled_charsmap has a key of more than 128 bytes"));
  CHECK_THROWS_WITH(with({0x80000000U << 1 | 1U << 30})->encode("a"),
                    Contains("precompiled_charsmap leads beyond its end"));
}
