// What of conversations is learnt, by templates that mark it and by those that do not
// (tests/golden/supervised/templates).
#include "data/supervised/chat_supervision.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

using Catch::Contains;
using Pieces = std::vector<std::string>;

std::string json_of(const rapidjson::Value& value) {
  rapidjson::StringBuffer text;
  rapidjson::Writer<rapidjson::StringBuffer> writer(text);
  value.Accept(writer);
  return text.GetString();
}

ChatFormat format_of(const std::string& source, const std::string& bos, const std::string& eos) {
  MemoryFileSystem files;
  files.make_directory("/m");
  files.write_text_atomically("/m/tokenizer.json", "{}");
  files.write_text_atomically("/m/chat_template.jinja", source);
  rapidjson::Document tokens(rapidjson::kObjectType);
  auto& memory = tokens.GetAllocator();
  tokens.AddMember("bos_token", rapidjson::Value(bos.c_str(), memory), memory);
  tokens.AddMember("eos_token", rapidjson::Value(eos.c_str(), memory), memory);
  files.write_text_atomically("/m/tokenizer_config.json", json_of(tokens));
  return ChatFormat::read(files, "/m", "");
}

ChatRecord record_of(const std::string& json, const ChatFields& fields = {}) {
  rapidjson::Document object;
  object.Parse(json.c_str());
  REQUIRE_FALSE(object.HasParseError());
  return chat_record(object, fields, {.path = "chat.jsonl", .line = 3});
}

Pieces learnt_of(const ChatSupervision& supervision, const std::string& json) {
  const SupervisedText text =
      supervision.supervise(record_of(json), {.path = "chat.jsonl", .line = 3});
  Pieces pieces;
  for (const auto& [begin, end] : text.learnt) {
    const std::string piece = text.text.substr(begin, end - begin);
    if (!piece.empty()) pieces.push_back(piece);
  }
  return pieces;
}

constexpr const char* kTalk = R"({"messages": [
  {"role": "system", "content": "Be kind."}, {"role": "user", "content": "One?"},
  {"role": "assistant", "content": "Two."}, {"role": "user", "content": "Three?"},
  {"role": "assistant", "content": "Four."}]})";

constexpr const char* kPlain =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}<e>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

ChatSupervision plain(SupervisionRules rules) {
  rules.special_tokens = {"<e>"};
  return {format_of(kPlain, "", "<e>"), std::move(rules)};
}

TEST_CASE("turns of well-known templates are found where they lie", "[data]") {
  rapidjson::Document golden;
  golden.Parse(
      RealFileSystem()
          .read_text(testing::source_directory() + "/tests/golden/supervised/templates/turns.json",
                     1 << 20)
          .c_str());
  REQUIRE_FALSE(golden.HasParseError());
  int found = 0, refused = 0;
  for (const auto& talk : golden["conversations"].GetArray()) {
    const std::string name = talk["template"].GetString();
    const auto& source = golden["templates"][name.c_str()];
    CAPTURE(name);
    const std::string eos = name == "gemma" ? "<end_of_turn>" : source["eos_token"].GetString();
    const ChatSupervision supervision(
        format_of(source["template"].GetString(), source["bos_token"].GetString(),
                  source["eos_token"].GetString()),
        {.special_tokens = {eos}});
    const ChatRecord chat = record_of(R"({"messages":)" + json_of(talk["messages"]) + "}");
    const auto& turns = talk["turns"].GetArray();
    const bool is_stable =
        std::ranges::all_of(turns, [](const auto& turn) { return turn["stable"].GetBool(); });
    if (!is_stable) {
      CHECK_THROWS_WITH(supervision.supervise(chat, {.path = "c.jsonl", .line = 2}),
                        Contains("c.jsonl:2: the chat template writes the first") &&
                            Contains("{% generation %}"));
      ++refused;
      continue;
    }
    const SupervisedText text = supervision.supervise(chat, {.path = "c.jsonl", .line = 2});
    CHECK(text.text == talk["text"].GetString());
    REQUIRE(text.learnt.size() == 2 * size_t{turns.Size()});  // each with its end
    for (rapidjson::SizeType i = 0; i < turns.Size(); ++i) {
      const size_t at = size_t{2} * i;
      const std::string upto = turns[i]["upto"].GetString();
      const auto& [said, end] = std::pair(text.learnt[at], text.learnt[at + 1]);
      CHECK(said.begin == turns[i]["bytes"][0].GetUint64());
      CHECK(said.end == end.begin);
      CHECK(end.end == upto.find_last_not_of(" \n") + 1);
      CHECK(text.text.substr(end.begin, end.end - end.begin) == eos);
    }
    ++found;
  }
  CHECK(found == 14);
  CHECK(refused == 4);
}

TEST_CASE("who speaks, and how turns end, says what is learnt", "[data]") {
  CHECK(learnt_of(plain({}), kTalk) == Pieces{"Two.", "<e>", "Four.", "<e>"});
  CHECK(learnt_of(plain({.ends = LearntEnds::kOfLast}), kTalk) == Pieces{"Two.", "Four.", "<e>"});
  CHECK(learnt_of(plain({.ends = LearntEnds::kNone}), kTalk) == Pieces{"Two.", "Four."});
  CHECK(learnt_of(plain({.ends = LearntEnds::kOfAll}), kTalk) ==
        Pieces{"<e>", "<e>", "Two.", "<e>", "<e>", "Four.", "<e>"});
  CHECK(learnt_of(plain({.roles = {"user"}}), kTalk) == Pieces{"One?", "<e>", "Three?", "<e>"});
  CHECK(learnt_of(plain({.roles = {"system", "assistant"}}), kTalk) ==
        Pieces{"Be kind.", "<e>", "Two.", "<e>", "Four.", "<e>"});
  CHECK(learnt_of(plain({.roles = {"all"}}), kTalk).front().starts_with("<system>Be kind."));
}

TEST_CASE("what a message says is not looked for in the header of its turn", "[data]") {
  const std::string talk = R"({"messages": [{"role": "user", "content": "user"},
    {"role": "assistant", "content": "e"}, {"role": "user", "content": "e "}]})";
  CHECK(learnt_of(plain({.roles = {"user"}}), talk) == Pieces{"user", "<e>", "e ", "<e>"});
}

TEST_CASE("a message of weight 0 is not learnt", "[data]") {
  const std::string talk = R"({"messages": [{"role": "user", "content": "a"},
    {"role": "assistant", "content": "b", "weight": 0}, {"role": "user", "content": "c"},
    {"role": "assistant", "content": "d", "weight": 1}]})";
  CHECK(learnt_of(plain({}), talk) == Pieces{"d", "<e>"});
  const ChatSupervision marked(
      format_of(
          "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}"
          "{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}",
          "", ""),
      {});
  CHECK(learnt_of(marked, talk) == Pieces{"d"});
  CHECK_THROWS_WITH(record_of(R"({"messages": [{"role": "user", "content": "a", "weight": 0.5}]})"),
                    Contains("chat.jsonl:3: message 1 of \"messages\" has a \"weight\""));
}

TEST_CASE("a weight is refused where everything is learnt whatever it weighs", "[data]") {
  const std::string talk = R"({"messages": [{"role": "user", "content": "a"},
    {"role": "assistant", "content": "b", "weight": 0}]})";
  CHECK_THROWS_WITH(learnt_of(plain({.roles = {"all"}}), talk),
                    Contains("chat.jsonl:3: a message has \"weight\" 0, and everything is learnt"));
}

TEST_CASE("the model is the assistant by another name", "[data]") {
  const std::string talk = R"({"messages": [{"role": "user", "content": "a"},
    {"role": "model", "content": "b"}]})";
  CHECK(learnt_of({format_of("{% for m in messages %}<{{ m.role }}>{{ m.content }}<e>{% endfor %}"
                             "{% if add_generation_prompt %}<model>{% endif %}",
                             "", ""),
                   {.special_tokens = {"<e>"}}},
                  talk) == Pieces{"b", "<e>"});
}

TEST_CASE("a template that marks none of a conversation has nothing of it learnt", "[data]") {
  const ChatSupervision last({format_of("{% for m in messages %}{% if loop.last and m.role == "
                                        "'assistant' %}{% generation %}{{ m.content }}"
                                        "{% endgeneration %}{% else %}{{ m.content }}{% endif %}"
                                        "{% endfor %}",
                                        "", "")},
                             {});
  CHECK(learnt_of(last, kTalk) == Pieces{"Four."});
  CHECK(learnt_of(last, R"({"messages": [{"role": "user", "content": "a"},
    {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]})")
            .empty());
}

TEST_CASE("a template that marks what is learnt is asked for nothing else", "[data]") {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<e>"
      "{% endgeneration %}{% else %}{{ m.content }}<e>{% endif %}{% endfor %}";
  CHECK(learnt_of({format_of(source, "", ""), {}}, kTalk) == Pieces{"Two.<e>", "Four.<e>"});
  CHECK_THROWS_AS(learnt_of({format_of(source, "", ""), {.roles = {"user"}}}, kTalk), ConfigError);
  CHECK_THROWS_AS(learnt_of({format_of(source, "", ""), {.ends = LearntEnds::kNone}}, kTalk),
                  ConfigError);
  CHECK(learnt_of({format_of(source, "", ""), {.roles = {"all"}}}, kTalk).size() == 1);
  const std::string in_macro =
      "{% macro say(t) %}{% generation %}{{ t }}{% endgeneration %}{% endmacro %}"
      "{% for m in messages %}{{ say(m.content) }}{% endfor %}";
  CHECK_THROWS_WITH(learnt_of({format_of(in_macro, "", ""), {}}, kTalk),
                    Contains("chat.jsonl:3: line 1 of the chat template"));
}

TEST_CASE("what cannot be told of a conversation is said", "[data]") {
  // Content that the template changes, of somebody whom it does not introduce.
  const std::string shouts =
      "{% for m in messages %}<{{ m.role }}>{{ m.content | upper }}<e>{% endfor %}";
  CHECK_THROWS_WITH(
      learnt_of({format_of(shouts, "", ""), {.roles = {"user"}, .special_tokens = {"<e>"}}}, kTalk),
      Contains("message 2 does not stand in the text as it is"));
  CHECK_THROWS_WITH(learnt_of({format_of(kPlain, "", ""), {.ends = LearntEnds::kNone}}, kTalk),
                    Contains("ends message 3 with no special token"));
  CHECK_THROWS_WITH(
      learnt_of({format_of("{{ raise_exception('no such talk') }}", "", ""), {}}, kTalk),
      Contains("chat.jsonl:3") && Contains("no such talk"));
}

TEST_CASE("behind a prompt of messages all is learnt", "[data]") {
  rapidjson::Document object;
  object.Parse(R"({"prompt": [{"role": "user", "content": "a"}],
    "completion": [{"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]})");
  const PromptAndCompletion record = prompt_record(object, {}, {.path = "p.jsonl", .line = 1});
  REQUIRE(record.chat);
  const SupervisedText text = plain({}).supervise(*record.chat, {.path = "p.jsonl", .line = 1});
  REQUIRE(text.learnt.size() == 1);
  CHECK(text.text.substr(text.learnt[0].begin) == "b<e>\n<user>c<e>\n");
}

}  // namespace
}  // namespace ds
