#include "data/supervised/example_record.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Catch::Contains;

const RecordPlace kPlace{.path = "a.jsonl", .line = 7};

rapidjson::Document object_of(const std::string& json) {
  rapidjson::Document object;
  object.Parse(json.c_str());
  REQUIRE_FALSE(object.HasParseError());
  return object;
}

std::string chat_of(const std::string& json, const ChatFields& fields = {}) {
  const ChatRecord chat = chat_record(object_of(json), fields, kPlace);
  return first_messages(chat, std::ssize(chat.messages));
}

TEST_CASE("conversations are known by several names", "[data]") {
  const std::string wanted =
      R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})";
  CHECK(chat_of(wanted) == wanted);
  CHECK(chat_of(R"({"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]})") ==
        wanted);
  CHECK(chat_of(R"({"instruction": "a", "input": "", "output": "b"})") == wanted);
  CHECK(chat_of(R"({"talk":[{"from":"user","value":"a"},{"from":"model","value":"b"}]})",
                {.messages = "talk"}) == wanted);
  CHECK(chat_of(R"({"instruction": "a", "input": "x", "output": "b", "system": "s"})") ==
        R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"a\nx"},)"
        R"({"role":"assistant","content":"b"}]})");
  CHECK(chat_of(R"({"conversations":[{"from":"gpt","from":"human","value":"x","value":"a"},)"
                R"({"from":"gpt","value":"b"}]})") == wanted);
  // What templates know beside messages; of a table it is a text.
  CHECK(chat_of(R"({"messages":[{"role":"user","content":"a"}],"tools":"[{\"name\":\"f\"}]"})") ==
        R"({"messages":[{"role":"user","content":"a"}],"tools":[{"name":"f"}]})");
}

TEST_CASE("a conversation that is none is refused with its line", "[data]") {
  const auto [json, defect] = GENERATE(table<std::string, std::string>({
      {R"({"text": "a"})", "there is no field \"messages\" (there are: text)"},
      {R"({"messages": "a"})", "\"messages\" is no list of messages"},
      {R"({"messages": []})", "\"messages\" is empty"},
      {R"({"messages": ["a"]})", "message 1 of \"messages\" is no object"},
      {R"({"messages": [{"content": "a"}]})", "message 1 of \"messages\" has no \"role\""},
      {R"({"messages": [{"role": "asistant", "content": "a"}]})", "has the role \"asistant\""},
      {R"({"conversations": [{"from": "humen", "value": "a"}]})", "is from \"humen\""},
      {R"({"conversations": [{"from": "human"}]})", "has no text \"from\" and \"value\""},
      {R"({"messages": [{"role": "user", "content": "a"}], "tools": "x"})", "no list of JSON"},
      {R"({"instruction": "a", "output": "b", "history": [["c", "d"]]})", "\"history\""},
      {R"({"messages": [{"role": "system", "content": "a"}], "system": "b"})",
       "remove one of them"},
      {R"({"instruction": 5, "output": "b"})", "the field \"instruction\" is no text"},
  }));
  CAPTURE(json);
  CHECK_THROWS_WITH(chat_of(json), Contains("a.jsonl:7: ") && Contains(defect));
  CHECK(chat_of(R"({"messages": [{"role": "critic", "content": "a"}]})", {.roles = {"critic"}})
            .find("critic") != std::string::npos);
}

TEST_CASE("what no template is given is refused before it is written", "[data]") {
  const std::string deep(100'000, '['), end(100'000, ']');
  rapidjson::Document object;
  object.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag>(
      (R"({"messages": [{"role": "user", "content": )" + deep + end + "}]}").c_str());
  REQUIRE_FALSE(object.HasParseError());
  CHECK_THROWS_WITH(chat_record(object, {}, kPlace),
                    Contains("a.jsonl:7: a message or tool is nested deeper than 200 levels"));
  object.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag>(
      R"({"messages": [{"role": "user", "content": "a", "score": NaN}]})");
  REQUIRE_FALSE(object.HasParseError());
  CHECK_THROWS_WITH(chat_record(object, {}, kPlace),
                    Contains("a.jsonl:7: a message or tool has a number that is not finite"));
}

TEST_CASE("prompts are texts, messages or Alpaca's", "[data]") {
  const auto read = [](const std::string& json, const PromptFields& fields = {}) {
    return prompt_record(object_of(json), fields, kPlace);
  };
  CHECK(read(R"({"prompt": "a", "completion": "b"})").completion == "b");
  CHECK(read(R"({"q": "a", "a": "b"})", {.prompt = "q", .completion = "a"}).prompt == "a");
  const PromptAndCompletion alpaca = read(R"({"instruction": "I", "input": "X", "output": "O"})");
  CHECK(alpaca.prompt.ends_with("### Instruction:\nI\n\n### Input:\nX\n\n### Response:\n"));
  CHECK(alpaca.completion == "O");
  CHECK(read(R"({"instruction": "I", "output": "O"})").prompt.find("Input") == std::string::npos);
  CHECK_THROWS_WITH(read(R"({"prompt": "a", "completion": []})"), Contains("a.jsonl:7: "));
  const std::string critic = R"({"prompt": [{"role": "critic", "content": "a"}],
    "completion": [{"role": "assistant", "content": "b"}]})";
  CHECK_THROWS_WITH(read(critic), Contains("name others in data.chat.roles"));
  CHECK(read(critic, {.roles = {"critic"}}).chat->prompt == 1);
  CHECK_THROWS_WITH(read(R"({"prompt": "a", "completion": "b", "system": "s"})"),
                    Contains("a.jsonl:7: \"system\" beside a prompt is not read"));
  CHECK_THROWS_WITH(read(R"({"prompt": "a"})"), Contains("there is no field \"completion\""));
}

TEST_CASE("token ids come with labels or are all learnt", "[data]") {
  const auto read = [](const std::string& json) {
    return tokenized_record(object_of(json), 10, kPlace);
  };
  CHECK(read(R"({"input_ids": [1, 2]})").loss_mask == std::vector<uint8_t>{1, 1});
  CHECK(read(R"({"input_ids": [1, 2, 3], "labels": [-100, 2, 3]})").loss_mask ==
        std::vector<uint8_t>{0, 1, 1});
  CHECK(read(R"({"input_ids": [1, 2, 0], "attention_mask": [1, 1, 0]})").ids ==
        std::vector<int32_t>{1, 2});
  const auto [json, defect] = GENERATE(table<std::string, std::string>({
      {R"({"ids": [1]})", "there is no field \"input_ids\""},
      {R"({"input_ids": [1, 10]})", "\"input_ids\"[1] is 10, and the model has 10 tokens"},
      {R"({"input_ids": [-1]})", "\"input_ids\"[0] is -1"},
      {R"({"input_ids": [1.5]})", "\"input_ids\"[0] is no whole number"},
      {R"({"input_ids": [1], "labels": [1, 2]})", "\"labels\" has 2 numbers, and \"input_ids\" 1"},
      {R"({"input_ids": [1, 2], "labels": [2, -100]})", "\"labels\"[0] is 2, neither -100 nor 1"},
      {R"({"input_ids": [1, 2], "attention_mask": [0, 1]})", "leaves out tokens before others"},
  }));
  CAPTURE(json);
  CHECK_THROWS_WITH(read(json), Contains("a.jsonl:7: ") && Contains(defect));
}

}  // namespace
}  // namespace ds
