// What generate makes of a model whose next byte is known.
#include "rankd/verbs/generate.h"

#include <map>

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
  args.temperature = 0;
  args.threads = 1;
  return args;
}

testing::Printed generate(const GenerateArgs& args, const std::string& input = "") {
  int code = -1;
  testing::Printed out = testing::printed_by([&] { code = run_generate(args); }, input);
  REQUIRE(code == 0);
  return out;
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
  CHECK_THROWS_WITH(prompt_texts(args), Catch::Contains("compute on CPUs"));
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
  args.temperature = 1;
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
  args.temperature = 1;
  args.max_tokens = 2000;
  const std::string text = generate(args).out;
  const auto share = static_cast<double>(std::ranges::count(text, 'b')) / 2000;
  CHECK(share == Approx(0.75).margin(0.05));  // five times the deviation of 2000 draws
  args.top_k = 1;
  args.max_tokens = 20;
  CHECK(generate(args).out == "x" + std::string(20, 'b') + "\n");
  args.top_k = 0;
  args.top_p = 0.5;
  CHECK(generate(args).out == "x" + std::string(20, 'b') + "\n");
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
      {[](GenerateArgs& a) { a.source = "/nowhere"; }, "/nowhere is no run directory"},
  };
  for (const Case& bad : cases) {
    INFO(bad.words);
    GenerateArgs args = args_for(model, {"x"});
    bad.change(args);
    CHECK_THROWS_WITH(testing::printed_by([&] { run_generate(args); }), Catch::Contains(bad.words));
  }
}
