// Prompts out of JSON lines: which field, what is carried, and what is refused with its line.
#include "cli/verbs/prompts.h"

#include <fstream>

#include "cli/verbs/generate.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

using namespace ds;
using ds::testing::TemporaryDirectory;

namespace {

std::string shown(std::string_view lines) {
  std::string out;
  for (const PromptRecord& record : records_of_json_lines(lines, "p.jsonl")) {
    out += record.text;
    for (const CarriedField& field : record.carried) out += "|" + field.name + "=" + field.json;
    out += ";";
  }
  return out;
}

std::string refusal_of(std::string_view lines) {
  try {
    shown(lines);
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("the field prompt, or else text, of each line is a prompt, and others are carried",
          "[cli]") {
  CHECK(shown("{\"prompt\": \"a\"}\n{\"text\": \"b\\n\"}\n") == "a;b\n;");
  CHECK(shown(R"({"id": 7, "prompt": "a", "tags": [1, {"x": null}]})") ==
        R"(a|id=7|tags=[1,{"x":null}];)");
  CHECK(shown("\xEF\xBB\xBF{\"prompt\": \"a\"}\r\n\n \t\r\n{\"prompt\": \"\"}") == "a;;");
}

TEST_CASE("a line that is no prompt is refused by its number", "[cli]") {
  const std::string good = "{\"prompt\": \"a\"}\n\n";
  CHECK(refusal_of(good + "{\"question\": \"b\"}") ==
        "p.jsonl:3: there is no field \"prompt\" or \"text\" with the text");
  CHECK(refusal_of(good + "{\"prompt\": [1, 2]}") ==
        "p.jsonl:3: the field \"prompt\" is [1,2], expected a string");
  CHECK_THAT(refusal_of(good + "a"), Catch::StartsWith("p.jsonl:3: not valid JSON at byte "));
  CHECK(refusal_of("[]") == "p.jsonl:1: no JSON object; each line must be one");
  CHECK(refusal_of(" \n\n") == "no line of p.jsonl is a prompt");
}

TEST_CASE("a field that would be taken for another one is refused by name", "[cli]") {
  CHECK(refusal_of(R"({"prompt": "a", "text": "b"})") ==
        "p.jsonl:1: the field \"text\" has the name of one that the output has; rename it");
  CHECK(refusal_of(R"({"ids": [1], "prompt": "a"})") ==
        "p.jsonl:1: the field \"ids\" has the name of one that the output has; rename it");
  CHECK(refusal_of(R"({"prompt": "a", "temperature": 0})") ==
        "p.jsonl:1: the field \"temperature\" is no option of one prompt; give --temperature for "
        "all of them, or rename it if it is to be carried through");
  CHECK_THAT(refusal_of(R"({"prompt": "a", "max_new_tokens": 9})"),
             Catch::Contains("--max-tokens"));
  CHECK_THAT(refusal_of(R"({"prompt": "a", "logit_bias": {}})"), Catch::Contains("leave it out"));
  CHECK(refusal_of(R"({"prompt": "a", "label": 0})") == "taken");
}

TEST_CASE("prompts are read from a file, and one that is not there is named", "[cli]") {
  const TemporaryDirectory here;
  const std::string path = (here.path() / "p.jsonl").string();
  std::ofstream(path) << "{\"prompt\": \"a\"}\n{\"prompt\": 1}\n";
  CHECK_THROWS_WITH(records_of_json_lines(read_prompt_file(path), path),
                    Catch::Contains(path + ":2: the field"));
  std::ofstream(path) << "{\"prompt\": \"a\"}\n";
  CHECK(records_of_json_lines(read_prompt_file(path), path).at(0).text == "a");
  CHECK_THROWS_AS(read_prompt_file(path + "x"), InputMissing);
}

TEST_CASE("conversations are JSON values, on lines or over several", "[cli]") {
  const auto texts = [](std::string_view text) {
    std::vector<std::string> out;
    for (const PromptRecord& record : records_of_conversations(text, "c.json")) {
      out.push_back(record.text);
    }
    return out;
  };
  CHECK(texts("\xEF\xBB\xBF[\n {\"role\": 1}\n]\n") ==
        std::vector<std::string>{"[\n {\"role\": 1}\n]"});
  CHECK(texts("[1]\n\n{\"a\": 2}\n[3]") == std::vector<std::string>{"[1]", "{\"a\": 2}", "[3]"});
  CHECK_THROWS_WITH(texts("[1]\n[2\n"), Catch::StartsWith("c.json:3: not valid JSON"));
  CHECK_THROWS_AS(texts(" \n"), UsageError);
}

TEST_CASE("what --prompt says is a message of a user, after the system's", "[cli]") {
  GenerateArgs args;
  args.chat.is_chat = true;
  args.prompts = {"a \"b\"", "c"};
  args.system = "s\n";
  const std::vector<PromptRecord> records = prompt_records(args);
  REQUIRE(records.size() == 2);
  CHECK(records[0].text ==
        R"([{"role": "system", "content": "s\n"}, {"role": "user", "content": "a \"b\""}])");
  CHECK(is_talk(args, true) == false);
  args.prompts = {"\xff"};
  CHECK_THROWS_AS(prompt_records(args), DataError);
  args.prompts = {};
  CHECK(is_talk(args, true));
  CHECK(!is_talk(args, false));
  args.prompt_file = "c.json";
  CHECK_THROWS_WITH(prompt_records(args), Catch::Contains("--system goes before"));
  args = {};
  args.prompts = {"a"};
  args.system = "s";
  CHECK_THROWS_WITH(prompt_records(args), Catch::Contains("give --chat"));
  args.system.reset();
  args.chat.chat_template = "x";
  CHECK_THROWS_WITH(prompt_records(args), Catch::Contains("give --chat"));
}
