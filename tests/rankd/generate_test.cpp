// What generate makes of a model whose next byte is known.
#include "rankd/verbs/generate.h"

#include <rapidjson/document.h>

#include <map>
#include <set>
#include <sstream>

#include "rankd/verbs/talk.h"
#include "tests/rankd/table_model.h"
#include "tests/support/catch.h"
#include "tests/support/files/redirected_streams.h"

using namespace ds;
using ds::testing::TableModel;

namespace {

// Bytes with these weights, of which the others are so unlikely that none is ever drawn.
TableModel::Logits likely(const std::map<char, double>& weights) {
  TableModel::Logits out{};
  out.fill(-60);
  for (const auto& [byte, weight] : weights)
    out[static_cast<unsigned char>(byte)] = std::log(weight);
  return out;
}

GenerateArgs args_for(const TableModel& model, const std::vector<std::string>& prompts) {
  GenerateArgs args;
  args.source = model.folder();
  args.prompts = prompts;
  args.tokenizer = "byte";
  args.max_tokens = 5;
  args.drawing.temperature = 0;
  args.threads = 1;
  return args;
}

testing::Printed generate(const GenerateArgs& args, const std::string& input = "") {
  int code = -1;
  testing::Printed out = testing::printed_by([&] { code = run_generate(args); }, input);
  REQUIRE(code == 0);
  return out;
}

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("at temperature 0 the likeliest token follows each prompt", "[rankd]") {
  const TableModel model(likely({{'a', 1}, {'b', 2}}));
  CHECK(generate(args_for(model, {"x"})).out == "xbbbbb\n");
  CHECK(generate(args_for(model, {"x", "yz"})).out == "xbbbbb\nyzbbbbb\n");
}

TEST_CASE("a device that this build has not is said before anything is loaded", "[rankd]") {
  const TableModel model(likely({{'a', 1}}));
  GenerateArgs args = args_for(model, {"x"});
  args.device = "cuda:1";
  CHECK_THROWS_AS(run_generate(args), Unsupported);
  args.num_ranks = 2;
  CHECK_THROWS_WITH(prompt_records(args), Catch::Contains("compute on CPUs"));
}

TEST_CASE("prompts come from arguments, from standard input, or from each of its lines",
          "[rankd]") {
  const TableModel model(likely({{'a', 1}}));
  GenerateArgs args = args_for(model, {});
  args.max_tokens = 1;
  CHECK(generate(args, "two\nlin\n").out == "two\nlina\n");
  args.lines = true;
  CHECK(generate(args, "two\r\n\nlin").out == "twoa\nlina\n");
  args.prompts = {"p", "-"};
  CHECK(generate(args, "q\n").out == "pa\nqa\n");
}

TEST_CASE("the same seed draws the same text, and each prompt its own", "[rankd]") {
  const TableModel model(likely({{'a', 1}, {'b', 1}, {'c', 1}, {'d', 1}}));
  GenerateArgs args = args_for(model, {"x", "x"});
  args.drawing.temperature = 1;
  args.max_tokens = 40;
  const std::string once = generate(args).out;
  CHECK(generate(args).out == once);
  const size_t end = once.find('\n');
  CHECK(once.substr(0, end) != once.substr(end + 1, end));
  args.seed += 1;
  CHECK(generate(args).out != once);
}

TEST_CASE("tokens are drawn as often as the model says", "[rankd]") {
  const TableModel model(likely({{'a', 1}, {'b', 3}}));
  GenerateArgs args = args_for(model, {"x"});
  args.drawing.temperature = 1;
  args.max_tokens = 2000;
  const std::string text = generate(args).out;
  const auto share = static_cast<double>(std::ranges::count(text, 'b')) / 2000;
  CHECK(share == Approx(0.75).margin(0.05));  // five times the deviation of 2000 draws
  args.drawing.top_k = 1;
  args.max_tokens = 20;
  CHECK(generate(args).out == "x" + std::string(20, 'b') + "\n");
  args.drawing.top_k = 0;
  args.drawing.top_p = 0.5;
  CHECK(generate(args).out == "x" + std::string(20, 'b') + "\n");
}

TEST_CASE("each sample of a prompt has its own text, whatever their number", "[rankd]") {
  const TableModel model(likely({{'a', 1}, {'b', 1}, {'c', 1}, {'d', 1}}));
  GenerateArgs args = args_for(model, {"x", "y"});
  args.drawing.temperature = 1;
  args.max_tokens = 30;
  const std::vector<std::string> alone = lines_in(generate(args).out);
  REQUIRE(alone.size() == 2);
  args.num_samples = 3;
  const std::vector<std::string> three = lines_in(generate(args).out);
  REQUIRE(three.size() == 6);
  CHECK(three[0] == alone[0]);
  CHECK(three[3] == alone[1]);
  CHECK(std::set<std::string>(three.begin(), three.end()).size() == 6);
  args.num_samples = 2;
  CHECK(lines_in(generate(args).out) ==
        std::vector<std::string>{three[0], three[1], three[3], three[4]});
  args.json = true;
  const std::vector<std::string> objects = lines_in(generate(args).out);
  REQUIRE(objects.size() == 4);
  CHECK_THAT(objects[2], Catch::Contains(R"("prompt":"y")") && Catch::Contains(R"("sample":0)"));
  CHECK_THAT(objects[3], Catch::Contains(R"("prompt":"y")") && Catch::Contains(R"("sample":1)"));
}

TEST_CASE("a repetition penalty is for the prompt and for what was drawn", "[rankd]") {
  const TableModel model(likely({{'a', 8}, {'b', 6}, {'c', 5}}));
  GenerateArgs args = args_for(model, {"x"});
  args.drawing.repetition_penalty = 1.5;  // log 8 / 1.5 = log 4
  args.max_tokens = 3;
  CHECK(generate(args).out == "xabc\n");
  args.prompts = {"a"};
  CHECK(generate(args).out == "abca\n");
  args.prompts = {"x", "a"};  // one after the other in the same place
  CHECK(generate(args).out == "xabc\nabca\n");
}

TEST_CASE("min-p draws what is likely enough beside the likeliest", "[rankd]") {
  const TableModel model(likely({{'a', 1}, {'b', 3}}));
  GenerateArgs args = args_for(model, {"x"});
  args.drawing.temperature = 1;
  args.drawing.min_p = 0.5;
  args.max_tokens = 40;
  CHECK(generate(args).out == "x" + std::string(40, 'b') + "\n");
}

TEST_CASE("log-probabilities are the model's own, whatever is drawn by", "[rankd]") {
  const TableModel model(likely({{'a', 1}, {'b', 3}}));
  GenerateArgs args = args_for(model, {"b"});
  args.json = true;
  args.max_tokens = 1;
  args.logprobs = 2;
  args.drawing.repetition_penalty = 5;
  rapidjson::Document line;
  line.Parse(generate(args).out.c_str());
  REQUIRE(line.IsObject());
  const rapidjson::Value& list = line["logprobs"];
  REQUIRE(list.Size() == 1);
  CHECK(list[0]["id"].GetInt() == 'b');
  CHECK(list[0]["text"] == "b");
  CHECK_FALSE(list[0].HasMember("bytes"));
  CHECK(list[0]["logprob"].GetDouble() == Approx(std::log(0.75)).margin(1e-5));
  REQUIRE(list[0]["top"].Size() == 2);
  CHECK(list[0]["top"][1]["id"].GetInt() == 'a');
  CHECK(list[0]["top"][1]["logprob"].GetDouble() == Approx(std::log(0.25)).margin(1e-5));
  args.logprobs.reset();
  line.Parse(generate(args).out.c_str());
  CHECK_FALSE(line.HasMember("logprobs"));
}

TEST_CASE("a token of a part of a character is told by its bytes", "[rankd]") {
  TableModel::Logits logits = likely({});
  logits[0xC3] = 0;
  const TableModel model(logits);
  GenerateArgs args = args_for(model, {"x"});
  args.max_tokens = 1;
  args.json = true;
  args.logprobs = 0;
  CHECK_THAT(
      generate(args).out,
      Catch::Contains("\"logprobs\":[{\"id\":195,\"text\":\"\xEF\xBF\xBD\",\"bytes\":[195],"));
}

TEST_CASE("prompts of JSON lines keep their order and carry their other fields", "[rankd]") {
  const TableModel model(likely({{'a', 1}}));
  GenerateArgs args = args_for(model, {});
  args.max_tokens = 1;
  args.prompt_file = model.add_file(
      "p.jsonl", "{\"id\": 12345678901234567890123, \"prompt\": \"x\"}\n{\"text\": \"y\"}\n");
  CHECK(generate(args).out == "xa\nya\n");
  args.json = true;
  args.num_samples = 2;
  const std::vector<std::string> lines = lines_in(generate(args).out);
  REQUIRE(lines.size() == 4);
  CHECK_THAT(lines[1], Catch::EndsWith(R"(,"id":12345678901234567890123})"));
  CHECK_THAT(lines[2], Catch::StartsWith(R"({"prompt":"y",)") && !Catch::Contains("\"id\":"));
  args.prompt_file = "-";
  args.json = false;
  args.num_samples = 1;
  CHECK(generate(args, "{\"prompt\": \"z\"}\n").out == "za\n");
}

TEST_CASE("generation_config.json of the folder says what no option does, in a note and in JSON",
          "[rankd]") {
  const TableModel model(likely({{'a', 1}, {'b', 3}}));
  GenerateArgs args = args_for(model, {"x"});
  args.drawing = {};
  args.max_tokens.reset();
  model.add_file("generation_config.json",
                 R"({"do_sample": false, "max_new_tokens": 3, "num_beams": 2})");
  testing::Printed printed = generate(args);
  CHECK(printed.out == "xbbb\n");
  CHECK(printed.error ==
        "note: temperature 0 (do_sample false), max_new_tokens 3 from generation_config.json\n"
        "note: not applied from generation_config.json: num_beams 2\n");
  args.json = true;
  args.max_tokens = 2;
  printed = generate(args);
  CHECK_THAT(printed.out,
             Catch::Contains(R"("sampling":{"temperature":0.0,"top_k":40,"top_p":1.0,"min_p":0.0,)"
                             R"("repetition_penalty":1.0,"max_tokens":2,"seed":1234,)"
                             R"("from_generation_config":["temperature"]})"));
}

TEST_CASE("a text ends at a stop text, which is not shown", "[rankd]") {
  const TableModel model(likely({{'a', 1}}));
  GenerateArgs args = args_for(model, {"x"});
  args.stops = {"never", "aaa"};
  args.json = true;
  const std::string out = generate(args).out;
  CHECK_THAT(out, Catch::Contains(R"("text":"")"));
  CHECK_THAT(out, Catch::Contains(R"("tokens":3)"));
  CHECK_THAT(out, Catch::Contains(R"("finish_reason":"stop")"));
}

TEST_CASE("a text ends at the model's end token, which is no part of it", "[rankd]") {
  const TableModel model(likely({{'e', 1}}), R"("eos_token_id": 101, )");
  GenerateArgs args = args_for(model, {"x"});
  args.json = true;
  const std::string out = generate(args).out;
  CHECK_THAT(out,
             Catch::Contains(R"("prompt":"x","text":"","prompt_tokens":1,"tokens":0,"ids":[])"));
  CHECK_THAT(out, Catch::Contains(R"("finish_reason":"eos")"));
}

TEST_CASE("a text of the length that was asked for says that it has more to say", "[rankd]") {
  const TableModel model(likely({{'a', 1}}));
  GenerateArgs args = args_for(model, {"x"});
  args.json = true;
  const std::string out = generate(args).out;
  CHECK_THAT(out,
             Catch::Contains(R"("text":"aaaaa")") && Catch::Contains(R"("ids":[97,97,97,97,97])"));
  CHECK_THAT(out, Catch::Contains(R"("finish_reason":"length")"));
}

TEST_CASE("a text goes on beyond the model's positions, and says once that it forgets", "[rankd]") {
  const TableModel model(likely({{'a', 1}}));
  GenerateArgs args = args_for(model, {"12345678"});  // as many as the model has
  args.max_tokens = 30;
  const testing::Printed printed = generate(args);
  CHECK(printed.out == "12345678" + std::string(30, 'a') + "\n");
  CHECK(printed.error ==
        "note: the text has reached the model's 8 positions; it goes on from its last 4 tokens\n");
}

TEST_CASE("bytes that are no characters are shown as such", "[rankd]") {
  TableModel::Logits logits = likely({});
  logits[0xFF] = 0;
  const TableModel model(logits);
  GenerateArgs args = args_for(model, {"x"});
  args.max_tokens = 2;
  CHECK(generate(args).out == "x\xEF\xBF\xBD\xEF\xBF\xBD\n");
}

TEST_CASE("what generate cannot do is one clear error", "[rankd]") {
  const TableModel model(likely({{'a', 1}}));
  struct Case {
    std::function<void(GenerateArgs&)> change;
    std::string words;
  };
  const std::vector<Case> cases{
      {[](GenerateArgs& a) { a.prompts = {"123456789"}; },
       "the prompt is 9 tokens, the model has 8 positions; shorten it by 1"},
      {[](GenerateArgs& a) { a.prompts = {""}; }, "the prompt is empty"},
      {[](GenerateArgs& a) {
         a.stops = {"x", ""};
       },
       "--stop: the text is empty"},
      {[](GenerateArgs& a) { a.lines = true; }, "--lines cuts standard input into prompts"},
      {[](GenerateArgs& a) { a.lines = true, a.prompts = {}; },
       "no line of standard input is a prompt"},
      {[](GenerateArgs& a) { a.prompt_file = "p.jsonl"; }, "--prompts has the prompts"},
      {[](GenerateArgs& a) { a.lines = true, a.prompts = {}, a.prompt_file = "-"; },
       "but --prompts gives other texts"},
      {[](GenerateArgs& a) { a.logprobs = 1; }, "add --json"},
      {[](GenerateArgs& a) { a.source = "/nowhere"; }, "/nowhere is no run directory"},
  };
  for (const Case& bad : cases) {
    INFO(bad.words);
    GenerateArgs args = args_for(model, {"x"});
    bad.change(args);
    CHECK_THROWS_WITH(testing::printed_by([&] { run_generate(args); }), Catch::Contains(bad.words));
  }
}

TEST_CASE("replies go on from conversations as the chat template writes them", "[rankd]") {
  const TableModel model(likely({{'z', 1}}));
  GenerateArgs args = args_for(model, {"ab"});
  args.chat = {.is_chat = true,
               .chat_template = model.add_file(
                   "turns.jinja",
                   "{% for m in messages %}{{ m.role[0] }}{{ m.content }}{% endfor %}"
                   "{% if add_generation_prompt %}>{% endif %}")};
  args.max_tokens = 2;
  CHECK(generate(args).out == "zz\n");
  args.json = true;
  args.prompts = {};
  const std::string chats =
      "[{\"role\": \"user\", \"content\": \"x\"}]\n"
      "{\"messages\": [{\"role\": \"system\", \"content\": \"y\"}], \"tools\": []}\n";
  const std::vector<std::string> lines = lines_in(generate(args, chats).out);
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0], Catch::Contains(R"("prompt":"ux>","text":"zz")"));
  CHECK_THAT(lines[1], Catch::Contains(R"("prompt":"sy>","text":"zz")"));
  CHECK_THROWS_WITH(generate(args, "[{}]"), Catch::StartsWith("conversation 1: message 1 has no"));
  args.chat.chat_template.clear();
  CHECK_THROWS_AS(generate(args, chats), InputMissing);
}

TEST_CASE("who talks with a model has the history told to it", "[rankd]") {
  const TableModel model(likely({{'z', 1}}));
  GenerateArgs args = args_for(model, {});
  args.chat = {.is_chat = true,
               .chat_template = model.add_file("turns.jinja",
                                               "{% for m in messages %}{{ m.content }}{% endfor %}>"
                                               "{{ raise_exception('no ' ~ messages[-1].content) "
                                               "if 'bad' in messages[-1].content }}")};
  args.system = "S";
  args.max_tokens = 1;
  std::vector<std::string> typed{"a",     "", "bad", "/new", "/what", "b", "toolongforit",
                                 "/exit", "c"};
  std::string shown;
  const auto talked = [&] {
    shown.clear();
    RealFileSystem files;
    size_t at = 0;
    talk(files, args,
         {.line = [&](const std::string& asking) -> std::optional<std::string> {
            shown += asking;
            if (at == typed.size()) return std::nullopt;
            return typed[at++];
          },
          .print = [&](const std::string& text) { shown += text; },
          .note =
              [&](const std::string& line) {
                shown += "(" + line.substr(0, line.find(';')).substr(0, 80) + ")";
              }});
    return shown;
  };
  CHECK(
      talked().starts_with("(/new begins another conversation, /exit (or Ctrl-D) ends)> z\n> > "
                           "(error: conversation 1: "));
  CHECK(
      shown.ends_with("> (/new begins another conversation, /exit (or Ctrl-D) ends)> z\n> (error: "
                      "generate: the prompt is 16 tokens, the model has 8 positions)> "));
  typed = {"a", "b"};
  CHECK(talked().ends_with("> z\n> z\n> "));
  args.json = true;
  CHECK_THROWS_AS(talked(), UsageError);
}
