// The tokens of pairs, and which of them count: those that TRL's DPOTrainer has
// (tests/golden/preference), and what its rule comes to.
#include "data/supervised/preference_examples.h"

#include "core/status/error.h"
#include "data/text/record_lines.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

using Catch::Contains;

const std::string kGolden = testing::source_directory() + "/tests/golden";
const RecordPlace kPlace{.path = "p.jsonl", .line = 3};

std::unique_ptr<PairReader> golden_reader(FileSystem& files, const Tokenizer& tokenizer) {
  const std::string model = kGolden + "/supervised/model";
  const std::vector<int32_t> end = tokenizer.encode(eos_token(files, model).value());
  REQUIRE(end.size() == 1);
  PreferenceForm form{.frame = read_frame(files, model, tokenizer), .end = end.front()};
  form.chat.emplace(ChatFormat::read(files, model, ""), SupervisionRules());
  return preference_pairs(tokenizer, std::move(form));
}

template <class Number>
std::vector<Number> numbers_in(const rapidjson::Value& list) {
  std::vector<Number> out;
  for (const auto& number : list.GetArray()) out.push_back(static_cast<Number>(number.GetInt()));
  return out;
}

TEST_CASE("pairs have the tokens of TRL", "[data]") {
  RealFileSystem files;
  const auto tokenizer = make_tokenizer(files, kGolden + "/supervised/model");
  const auto reader = golden_reader(files, *tokenizer);
  rapidjson::Document golden;
  golden.Parse(files.read_text(kGolden + "/preference/expected.json", 1 << 24).c_str());
  REQUIRE_FALSE(golden.HasParseError());
  int pairs = 0;
  for (const auto& [name, wanted] : golden["samples"].GetObject()) {
    const std::string path = kGolden + "/preference/" + name.GetString() + ".jsonl";
    rapidjson::SizeType at = 0;
    for_each_object_line(
        files.read_text(path, 1 << 20), path, [&](const rapidjson::Document& object, int64_t line) {
          CAPTURE(path, line);
          const PreferencePair got = reader->read(object, {.path = path, .line = line});
          REQUIRE(at < wanted.Size());
          const auto& pair = wanted[at++];
          CHECK(got.chosen.ids == numbers_in<int32_t>(pair["chosen"]["ids"]));
          CHECK(got.chosen.loss_mask == numbers_in<uint8_t>(pair["chosen"]["mask"]));
          CHECK(got.rejected.ids == numbers_in<int32_t>(pair["rejected"]["ids"]));
          CHECK(got.rejected.loss_mask == numbers_in<uint8_t>(pair["rejected"]["mask"]));
          ++pairs;
        });
    CHECK(at == wanted.Size());
  }
  CHECK(pairs == 42);
}

// What of bytes counts, in brackets.
std::string marked(const SupervisedTokens& tokens) {
  std::string out;
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    if (tokens.loss_mask[i] != 0 && (i == 0 || tokens.loss_mask[i - 1] == 0)) out += '[';
    out += static_cast<char>(tokens.ids[i]);
  }
  return out + (tokens.loss_mask.back() != 0 ? "]" : "");
}

std::pair<std::string, std::string> read(PreferenceForm form, const std::string& json) {
  const ByteTokenizer bytes;
  rapidjson::Document object;
  object.Parse(json.c_str());
  REQUIRE_FALSE(object.HasParseError());
  const PreferencePair pair = preference_pairs(bytes, std::move(form))->read(object, kPlace);
  return {marked(pair.chosen), marked(pair.rejected)};
}

std::optional<ChatSupervision> template_of(const std::string& source) {
  MemoryFileSystem files;
  files.write_text_atomically("/t.jinja", source);
  return ChatSupervision(ChatFormat::read(files, "byte", "/t.jinja"), {});
}

using Two = std::pair<std::string, std::string>;

TEST_CASE("the end follows a completion within the frame, unless it is there", "[data]") {
  const std::string json = R"({"prompt": "a", "chosen": "b", "rejected": "c$"})";
  CHECK(read({}, json) == Two{"a[b]", "a[c$]"});
  CHECK(read({.end = '$'}, json) == Two{"a[b$]", "a[c$]"});
  const TokenizerFrame frame{.before = {'<'}, .after = {'>'}};
  CHECK(read({.frame = frame, .end = '$'}, json) == Two{"<a[b$>]", "<a[c$>]"});
  CHECK(read({.frame = frame, .end = '$'}, R"({"prompt": "a$", "chosen": "", "rejected": "$"})") ==
        Two{"<a$[$>]", "<a$[$>]"});
}

TEST_CASE("both completions begin where the prompt's own tokens end in either", "[data]") {
  // The prompt by itself ends with ">", with which one of the completions begins.
  CHECK(read({.frame = {.before = {}, .after = {'>'}}},
             R"({"prompt": "a", "chosen": ">b", "rejected": "c"})") == Two{"a[>b>]", "a[c>]"});
  // What the template writes otherwise, once a reply follows, is left to the completions.
  const std::string talk = R"({"prompt": [{"role": "user", "content": "x"}],
    "chosen": [{"role": "assistant", "content": "b"}],
    "rejected": {"role": "assistant", "content": "c"}})";
  const std::string turns =
      "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }};{% endfor %}"
      "{% if add_generation_prompt %}<a>";
  CHECK(read({.chat = template_of(turns + "{% endif %}")}, talk) ==
        Two{"<u>x;<a>[b;]", "<u>x;<a>[c;]"});
  CHECK(read({.end = '$', .chat = template_of(turns + "b{% endif %}")}, talk) ==
        Two{"<u>x;<a>[b;]", "<u>x;<a>[c;]"});
  CHECK(read({.chat = template_of("{{ messages | length }}" + turns + "{% endif %}")}, talk) ==
        Two{"[2<u>x;<a>b;]", "[2<u>x;<a>c;]"});
}

TEST_CASE("a pair of conversations needs a template that takes them", "[data]") {
  const std::string talk = R"({"prompt": [{"role": "user", "content": "x"}],
    "chosen": {"role": "assistant", "content": "b"},
    "rejected": {"role": "assistant", "content": "c"}})";
  CHECK_THROWS_WITH(read({}, talk), Contains("p.jsonl:3: the prompt is a list of messages, and the "
                                             "tokenizer has no chat template"));
  CHECK_THROWS_WITH(read({.chat = template_of("{{ raise_exception('no such talk') }}")}, talk),
                    Contains("p.jsonl:3: ") && Contains("no such talk"));
}

}  // namespace
}  // namespace ds
