#include "data/supervised/preference_record.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Catch::Contains;
using Texts = std::vector<std::string>;

PreferenceRecord read(const std::string& json, const PreferenceFields& fields = {}) {
  rapidjson::Document object;
  object.Parse<rapidjson::kParseIterativeFlag>(json.c_str());
  REQUIRE_FALSE(object.HasParseError());
  return preference_record(object, fields, {.path = "p.jsonl", .line = 7});
}

// Prompt, chosen, rejected.
Texts texts_of(const std::string& json, const PreferenceFields& fields = {}) {
  const PreferenceRecord record = read(json, fields);
  REQUIRE_FALSE(record.chats);
  return {record.prompt, record.chosen, record.rejected};
}

// What is said by whom, in the prompt, and then in each completion.
Texts talk_of(const std::string& json, const PreferenceFields& fields = {}) {
  const PreferenceRecord record = read(json, fields);
  REQUIRE(record.chats);
  const auto& [chosen, rejected] = *record.chats;
  REQUIRE(chosen.prompt);
  REQUIRE(chosen.prompt == rejected.prompt);
  Texts out{"", "", ""};
  const auto add = [](std::string& text, const RecordMessage& message) {
    text += message.role.substr(0, 1) + ":" + message.content + " ";
  };
  for (int64_t i = 0; i < std::ssize(chosen.messages); ++i) {
    const auto at = static_cast<size_t>(i);
    add(out[i < *chosen.prompt ? 0 : 1], chosen.messages[at]);
    if (i < *chosen.prompt) CHECK(chosen.messages[at].json == rejected.messages[at].json);
  }
  for (auto at = static_cast<size_t>(*rejected.prompt); at < rejected.messages.size(); ++at) {
    add(out[2], rejected.messages[at]);
  }
  return out;
}

TEST_CASE("a pair is three texts, of which the prompt may stand in both others", "[data]") {
  CHECK(texts_of(R"({"prompt": "a ", "chosen": "b", "rejected": "c"})") == Texts{"a ", "b", "c"});
  CHECK(texts_of(R"({"q": "a", "good": "b", "bad": "", "prompt": 5})",
                 {.prompt = "q", .chosen = "good", .rejected = "bad"}) == Texts{"a", "b", ""});
  const auto [chosen, rejected, wanted] = GENERATE(table<std::string, std::string, Texts>({
      {"Is it? Yes.", "Is it? No.", {"Is it?", " Yes.", " No."}},  // a space is left to both
      {"Is it?  Yes", "Is it?  No", {"Is it? ", " Yes", " No"}},   // one of them
      {"wet", "white", {"w", "et", "hite"}},
      {"ab ", "ab c", {"ab", " ", " c"}},  // the last one that is shared is left to both
      {"a", "ab", {"", "a", "ab"}},
      {"\xC3\xA4\xC3\xA9", "\xC3\xA4\xC3\xA9x", {"\xC3\xA4", "\xC3\xA9", "\xC3\xA9x"}},
      {"a\xF0\x9F\x98\x80", "a\xF0\x9F\x98\x81", {"a", "\xF0\x9F\x98\x80", "\xF0\x9F\x98\x81"}},
      {"Yes", "No", {"", "Yes", "No"}},
      {" Yes", " No", {"", " Yes", " No"}},
  }));
  CAPTURE(chosen, rejected);
  CHECK(texts_of(fmt::format(R"({{"chosen": "{}", "rejected": "{}"}})", chosen, rejected)) ==
        wanted);
  CHECK(texts_of(fmt::format(R"({{"chosen": "{}", "rejected": "{}"}})", rejected, chosen)) ==
        Texts{wanted[0], wanted[2], wanted[1]});
}

TEST_CASE("a pair is messages in all of its parts", "[data]") {
  const Texts wanted{"u:a ", "a:b ", "a:c "};
  CHECK(talk_of(R"({"prompt": [{"role": "user", "content": "a"}],
                    "chosen": [{"role": "assistant", "content": "b"}],
                    "rejected": [{"role": "assistant", "content": "c"}]})") == wanted);
  // One that stands in no list, and ShareGPT's names.
  CHECK(talk_of(R"({"prompt": [{"role": "user", "content": "a"}],
                    "chosen": {"role": "assistant", "content": "b"},
                    "rejected": {"from": "gpt", "value": "c"}})") == wanted);
  CHECK(talk_of(R"({"conversations": [{"from": "human", "value": "a"}],
                    "chosen": {"from": "gpt", "value": "b"},
                    "rejected": {"from": "gpt", "value": "c"}})") == wanted);
  CHECK(talk_of(R"({"messages": [{"role": "user", "content": "a"}], "system": "s",
                    "chosen": {"role": "assistant", "content": "b"},
                    "rejected": {"role": "assistant", "content": "c"}})") ==
        Texts{"s:s u:a ", "a:b ", "a:c "});
  const std::string critic = R"({"talk": [{"role": "critic", "content": "a"}],
    "chosen": {"role": "assistant", "content": "b"},
    "rejected": {"role": "assistant", "content": "c"},
    "tools": "[{\"name\": \"f\"}]"})";
  CHECK(talk_of(critic, {.prompt = "talk", .roles = {"critic"}}) == Texts{"c:a ", "a:b ", "a:c "});
  const PreferenceRecord tools = read(critic, {.prompt = "talk", .roles = {"critic"}});
  CHECK(first_messages(tools.chats->second, 1) ==
        R"({"messages":[{"role":"critic","content":"a"}],"tools":[{"name": "f"}]})");
}

TEST_CASE("what two conversations begin with alike is their prompt", "[data]") {
  const auto pair = [](const std::string& chosen, const std::string& rejected) {
    const std::string first = R"({"role": "user", "content": "a"})";
    return fmt::format(R"({{"chosen": [{}, {}], "rejected": [{}, {}]}})", first, chosen,
                       R"({"content": "a", "role": "user"})", rejected);
  };
  const std::string b = R"({"role": "assistant", "content": "b"})";
  const std::string c = R"({"role": "assistant", "content": "c"})";
  const std::string d = R"({"role": "user", "content": "d"})";
  CHECK(talk_of(pair(b, c)) == Texts{"u:a ", "a:b ", "a:c "});
  // UltraFeedback's prompt is the text of a message that both have.
  const auto with_prompt = [&](const std::string& prompt) {
    return fmt::format(R"({{"prompt": "{}", {})", prompt, pair(b, c).substr(1));
  };
  CHECK(talk_of(with_prompt("a")) == Texts{"u:a ", "a:b ", "a:c "});
  CHECK_THROWS_WITH(read(with_prompt("b")), Contains("\"prompt\" is no list of messages"));
  CHECK(talk_of(pair(b + "," + d, b + "," + c)) == Texts{"u:a a:b ", "u:d ", "a:c "});
  // One begins the other: the last message that is shared is left to both.
  CHECK(talk_of(pair(b, b + "," + d)) == Texts{"u:a ", "a:b ", "a:b u:d "});
  CHECK_THROWS_WITH(
      read(fmt::format(R"({{"chosen": [{}, {}], "rejected": [{}, {}]}})", d, b, b, c)),
      Contains("p.jsonl:7: there is no \"prompt\", and \"chosen\" and \"rejected\" "
               "begin with different messages"));
}

TEST_CASE("a pair that is none is refused with its line", "[data]") {
  const std::string a = R"([{"role": "user", "content": "a"}])";
  const std::string b = R"({"role": "assistant", "content": "b"})";
  const std::string c = R"({"role": "assistant", "content": "c"})";
  const auto beside = [&](const std::string& more) {
    return fmt::format(R"({{{}, "chosen": {}, "rejected": {}}})", more, b, c);
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"prompt": "a", "chosen": "b"})",
       "there is no field \"rejected\" (there are: prompt, chosen); data.preference"},
      {R"({"prompt": "a", "rejected": "b"})", "there is no field \"chosen\""},
      {R"({"prompt": "a", "chosen": "b", "rejected": 5})", "neither two texts nor messages both"},
      {R"({"prompt": "a", "chosen": "b", "rejected": [)" + b + "]}", "neither two texts nor"},
      {R"({"prompt": "a", "chosen": "b", "rejected": "b"})", "are equal"},
      {R"({"chosen": "b", "rejected": "b"})", "are equal"},
      {R"({"chosen": "", "rejected": "b"})", "\"chosen\" is empty, and there is no \"prompt\""},
      {R"({"chosen": "b", "rejected": ""})", "\"rejected\" is empty, and there is no \"prompt\""},
      {R"({"prompt": null, "chosen": "b", "rejected": "c"})", "\"prompt\" is no text"},
      {R"({"prompt": )" + a + R"(, "chosen": "b", "rejected": "c"})", "expected three texts"},
      {R"({"question": "a", "chosen": "b", "rejected": "c"})", "\"question\" beside \"chosen\""},
      {R"({"instruction": "a", "chosen": "b", "rejected": "c"})", "\"instruction\" beside"},
      {R"({"prompt": "a", "system": "s", "chosen": "b", "rejected": "c"})", "\"system\" beside"},
      {beside(R"("prompt": "a")"), "\"prompt\" is no list of messages, and \"chosen\""},
      {beside(R"("prompt": [])"), "\"prompt\" is empty"},
      {beside(R"("system": "s", "prompt": )" + a), "\"system\" beside"},
      {beside(R"("prompt": [{"role": "users", "content": "a"}])"), "has the role \"users\""},
      {beside(R"("messages": [{"role": "assistant", "content": "a"}])"),
       "the last message of \"messages\" is the assistant's"},
      {R"({"prompt": )" + a + R"(, "chosen": [], "rejected": )" + b + "}", "\"chosen\" is empty"},
      {R"({"prompt": )" + a + R"(, "chosen": {"content": "b"}, "rejected": )" + b + "}",
       "\"chosen\" has no \"role\""},
      {R"({"prompt": )" + a + R"(, "chosen": {"from": "bot", "value": "b"}, "rejected": )" + b +
           "}",
       "\"chosen\" is from \"bot\""},
      {R"({"prompt": )" + a + R"(, "chosen": )" + b + R"(, "rejected": [)" + b + "]}", "are equal"},
      {R"({"prompt": )" + a + R"(, "rejected": )" + b +
           R"(, "chosen": {"role": "assistant", "content": "c", "weight": 0}})",
       "has \"weight\" 0"},
  };
  for (const auto& [json, defect] : cases) {
    CAPTURE(json);
    CHECK_THROWS_AS(read(json), DataError);
    CHECK_THROWS_WITH(read(json), Contains("p.jsonl:7: ") && Contains(defect));
  }
  CHECK_THROWS_WITH(read(R"({"prompt": "a", "chosen": "b", "rejected": "c"})", {.prompt = "q"}),
                    Contains("there is no field \"q\""));
  const std::string deep(100'000, '['), end(100'000, ']');
  CHECK_THROWS_WITH(read(R"({"chosen": {"role": "user", "content": )" + deep + end +
                         R"(}, "rejected": )" + b + "}"),
                    Contains("nested deeper than 200 levels"));
}

}  // namespace
}  // namespace ds
