// What check, explain and the look at the inputs say of a configuration.
#include "launcher/verbs/check.h"

#include <unistd.h>

#include <fstream>

#include "config/reader/json_reader.h"
#include "core/status/error.h"
#include "launcher/verbs/explain.h"
#include "launcher/verbs/input_look.h"
#include "tests/support/catch.h"
#include "tests/support/files/redirected_streams.h"
#include "tests/support/files/working_directory.h"
#include "tests/support/kept_signal_mask.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

// A folder to stand in, with a train.json, and a program in rankd's place that prints `answer`.
class Folder {
 public:
  explicit Folder(const std::string& config) : stand_(here_.path()) {
    put("train.json", config);
    context_.rank_program = (here_.path() / "rankd").string();
  }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(here_.path() / name) << text;
  }
  void engine_says(const std::string& script) const {
    put("rankd", "#!/bin/sh\n" + script + "\n");
    fs::permissions(here_.path() / "rankd", fs::perms::owner_all);
  }
  std::string check(const CheckOptions& options) {
    return testing::printed_by([&] { code_ = run_check(options, context_); }).out;
  }
  std::string check() { return check(of_file()); }
  static CheckOptions of_file(const std::string& name = "train.json") {
    CheckOptions out;
    out.config = name;
    return out;
  }
  int code() const { return code_; }
  const CommandContext& context() const { return context_; }
  std::string path() const { return here_.path().string(); }

 private:
  testing::TemporaryDirectory here_;
  const testing::WorkingDirectory stand_;
  CommandContext context_;
  int code_ = -1;
};

ExplainOptions explain_key(const std::string& key) {
  ExplainOptions out;
  out.config = "train.json";
  if (!key.empty()) out.key = key;
  return out;
}

const std::string kJob = R"({
  "train_batch_size": 8,
  "model": {"family": "gpt2"},
  "data": {"train": "gone.txt"},
  "train": {"steps": 1}, "optimizer": {"type": "AdamW"}
})";
constexpr const char* kNothingFound = R"(echo '{"defects": [], "notes": []}')";

}  // namespace

TEST_CASE("a file without anything wrong is fine, and what is missing to train is a note",
          "[launcher]") {
  Folder folder(R"({"train_batch_size": 8})");
  const std::string text = folder.check();
  CHECK(folder.code() == 0);
  CHECK_THAT(text, Catch::Contains("note: ") && Catch::Contains("train.json: no errors, "));
  CHECK(text.find("error: ") == std::string::npos);
}

TEST_CASE("of a job nothing may be missing that a run needs", "[launcher]") {
  for (const char* removed : {"~optimizer", "~train.steps", "~train_batch_size", "~data", "~model",
                              "train_batch_size=auto"}) {
    CAPTURE(removed);
    Folder folder(kJob);
    folder.engine_says(kNothingFound);
    CheckOptions options = Folder::of_file();
    options.overrides = {removed};
    CHECK_THAT(folder.check(options),
               Catch::Contains("error: ") && Catch::Contains("is needed to train"));
    CHECK(folder.code() == 78);
  }
}

TEST_CASE("batch sizes that fit no number of ranks are found, and those that do not fit this one",
          "[launcher]") {
  Folder folder(kJob);
  folder.engine_says(kNothingFound);
  CheckOptions options = Folder::of_file();
  options.num_ranks = 3;
  CHECK_THAT(folder.check(options),
             Catch::Contains("error: train.json:2:23: batch sizes do not agree: train_batch_size "
                             "8 is no multiple of 3 data-parallel ranks"));
  CHECK(folder.code() == 78);
  options.num_ranks = 4;
  folder.check(options);
  CHECK(folder.code() == 0);
  options.num_ranks.reset();
  options.overrides = {"+train_micro_batch_size_per_gpu=3"};
  CHECK_THAT(folder.check(options), Catch::Contains("error: train.json:2:23: batch sizes"));
  CHECK(folder.code() == 78);
}

TEST_CASE("a folder to swap to that is on other machines alone is a note, a bad one an error",
          "[launcher]") {
  Folder folder(kJob);
  folder.engine_says(kNothingFound);
  CheckOptions options = Folder::of_file();
  options.overrides = {R"(zero_optimization={"stage": 3, "offload_optimizer": {"device": "nvme",
                          "nvme_path": "swap"}})"};
  const std::string key = "zero_optimization.offload_optimizer.nvme_path: ";
  const std::string path = folder.path() + "/swap";
  CHECK_THAT(folder.check(options), Catch::Contains(key + path + " is not on this machine; ") &&
                                        Catch::Contains("`dslaunch preflight`") &&
                                        Catch::Contains("no errors, "));
  CHECK(folder.code() == 0);
  folder.put("swap", "a file");
  CHECK_THAT(folder.check(options),
             Catch::Contains(key + path + " cannot be written: Not a directory") &&
                 Catch::Contains("1 error, "));
  CHECK(folder.code() == 78);
  fs::remove("swap");
  fs::create_directory("swap");
  CHECK_THAT(folder.check(options), !Catch::Contains(key));
  CHECK(folder.code() == 0);
}

TEST_CASE("the run is planned only where nothing else is wrong, for the ranks that it may have",
          "[launcher]") {
  Folder folder(kJob);
  folder.engine_says(std::string(R"(echo "$@" >> asked; )") + kNothingFound);
  const auto asked = [&](const std::vector<std::string>& overrides,
                         std::optional<int64_t> ranks = {}) {
    fs::remove("asked");
    CheckOptions options = Folder::of_file();
    options.overrides = overrides;
    options.num_ranks = ranks;
    folder.check(options);
    std::ifstream in("asked");
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::vector<std::string> one = {"+train_micro_batch_size_per_gpu=4",
                                        "+gradient_accumulation_steps=2"};
  CHECK_THAT(asked(one), Catch::Contains("--look 1 plan train.json +train_micro"));
  CHECK_THAT(asked({one[0], one[1], "tensor_parallel.autotp_size=2"}),
             Catch::Contains("--look 2 plan train.json "));
  CHECK_THAT(asked({}, 4), Catch::Contains("--look 4 "));
  CHECK_THAT(asked({"~optimizer"}), Catch::Contains("--look 0 "));
}

TEST_CASE("everything that is wrong is said in the order of the file", "[launcher]") {
  Folder folder(
      "{\"train_batch_size\": \"many\",\n \"gradient_clippin\": 1,\n"
      " \"gradient_clipping\": []}");
  const std::string text = folder.check();
  CHECK(folder.code() == 78);
  const size_t first = text.find("train.json:1:");
  const size_t second = text.find("train.json:2:");
  const size_t third = text.find("train.json:3:");
  CHECK(first < second);
  CHECK(second < third);
  CHECK(third != std::string::npos);
  CHECK_THAT(text, Catch::Contains("train.json: 3 errors, "));
}

TEST_CASE("a text that is no JSON at all is one error with its place", "[launcher]") {
  Folder folder("{\"train_batch_size\": 8,,}");
  const std::string text = folder.check();
  CHECK(folder.code() == 78);
  CHECK_THAT(text, Catch::Contains("error: ") && Catch::Contains("train.json:1:") &&
                       Catch::Contains("train.json: 1 error, no notes"));
}

TEST_CASE("a configuration that is not there is no report", "[launcher]") {
  Folder folder("{}");
  CHECK_THROWS_AS(folder.check(Folder::of_file("missing.json")), InputMissing);
}

TEST_CASE("the report for programs has the places as numbers", "[launcher]") {
  Folder folder("{\n  \"gradient_clippin\": 1}");
  CheckOptions options = Folder::of_file();
  options.json = true;
  const std::string text = folder.check(options);
  const Value json = read_config_document(text, "report");
  CHECK_FALSE(json.find("ok")->as_boolean());
  CHECK(json.find("config")->as_string() == "train.json");
  REQUIRE(json.find("problems")->items().size() == 1);
  const Value& problem = json.find("problems")->items()[0];
  CHECK(problem.find("path")->as_string() == "gradient_clippin");
  CHECK(problem.find("line")->as_integer() == 2);
  CHECK(problem.find("column")->as_integer() > 0);
  CHECK(fs::path(problem.find("file")->as_string()).filename() == "train.json");
  CHECK(json.find("left_out")->as_integer() == 0);
}

TEST_CASE("batch sizes are tried for as many ranks as are named", "[launcher]") {
  Folder folder(R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2})");
  const auto with_ranks = [&](std::optional<int64_t> ranks) {
    CheckOptions options = Folder::of_file();
    options.num_ranks = ranks;
    return folder.check(options);
  };
  with_ranks({});
  CHECK(folder.code() == 0);
  with_ranks(4);
  CHECK(folder.code() == 0);
  CHECK_THAT(with_ranks(3), Catch::Contains("error: train.json:1:"));
  CHECK(folder.code() == 78);
}

TEST_CASE("without the engine check does what it can, and says what it did not look at",
          "[launcher]") {
  Folder folder(kJob);
  const std::string text = folder.check();
  CHECK(folder.code() == 0);
  CHECK_THAT(text, Catch::Contains("note: data, tokenizer and model were not looked at: ") &&
                       Catch::Contains("is missing; it belongs beside dslaunch"));
  struct Case {
    std::string script;
    std::string words;
  };
  for (const Case& bad :
       {Case{"exit 3", "exited with code 3"}, Case{"kill -9 $$", "was killed by signal 9"},
        Case{"echo what?", "is of another build"},
        Case{"echo '{\"defects\": [1]}'", "is of another build"}}) {
    INFO(bad.script);
    folder.engine_says(bad.script);
    CHECK_THAT(folder.check(), Catch::Contains(bad.words));
    CHECK(folder.code() == 0);
  }
}

TEST_CASE("what the engine finds wrong is said at the key that names it", "[launcher]") {
  Folder folder(kJob);
  folder.engine_says(
      R"(echo '{"defects": [{"code": 66, "key": "data.train", "what": "gone.txt: none"}],
               "notes": [{"key": "model.family", "what": "is not all used"}]}')");
  const std::string text = folder.check();
  CHECK(folder.code() == 78);
  CHECK_THAT(text, Catch::Contains("note: ") && Catch::Contains("model.family: is not all used"));
  CHECK_THAT(text, Catch::Contains("error: ") && Catch::Contains("train.json:4:") &&
                       Catch::Contains("data.train: gone.txt: none"));
}

TEST_CASE("the engine is asked about the file and what overrides it", "[launcher]") {
  Folder folder(kJob);
  folder.engine_says(R"(echo "$@" > asked; echo '{"defects": [], "notes": []}')");
  CheckOptions options = Folder::of_file();
  options.overrides = {"train.steps=7"};
  folder.check(options);
  std::ifstream in("asked");
  std::string asked;
  std::getline(in, asked);
  CHECK_THAT(asked, Catch::Contains(" --look ") && Catch::EndsWith(" train.json train.steps=7"));
}

TEST_CASE("a place where no run can be kept is found before one is started", "[launcher]") {
  Folder folder(kJob);
  folder.engine_says(R"(echo '{"defects": [], "notes": []}')");
  CHECK(folder.check().find("runs are kept") == std::string::npos);
  folder.put("runs", "a file");
  CHECK_THAT(folder.check(),
             Catch::Contains("runs are kept in a folder of this name, and this is none"));
  CHECK(folder.code() == 78);
}

TEST_CASE("a run that must resume is told where there is nothing to resume from", "[launcher]") {
  Folder folder(R"({"train_batch_size": 8, "model": {"family": "gpt2"},
                   "data": {"train": "gone.txt"}, "optimizer": {"type": "AdamW"},
                   "train": {"steps": 1, "resume": "required"}})");
  folder.engine_says(R"(echo '{"defects": [], "notes": []}')");
  CHECK_THAT(folder.check(), Catch::Contains("has no run of train with a checkpoint"));
  CHECK(folder.code() == 0);
}

TEST_CASE("a run refuses what the engine finds wrong, with the code of the first", "[launcher]") {
  Folder folder(kJob);
  folder.engine_says(
      R"(echo '{"defects": [{"code": 66, "key": "data.train", "what": "gone.txt is not there"},
                            {"code": 78, "key": "model.family", "what": "too large"}],
               "notes": []}')");
  const testing::KeptSignalMask mask;
  SignalWatch signals;
  RunOptions options;
  options.config = "train.json";
  try {
    require_inputs(options, {}, folder.context(), signals);
    FAIL_CHECK("nothing was wrong");
  } catch (const Error& refused) {
    CHECK(refused.exit_code() == ExitCode::kInputMissing);
    CHECK_THAT(refused.what(), Catch::Contains("data.train: gone.txt is not there\n") &&
                                   Catch::Contains("model.family: too large"));
  }
  folder.engine_says("exit 3");  // nobody looked: the ranks will
  CHECK(require_inputs(options, {}, folder.context(), signals).empty());
  folder.engine_says(
      R"(echo '{"defects": [], "notes": [{"key": "model.family", "what": "is not all used"}]}')");
  const std::vector<std::string> notes = require_inputs(options, {}, folder.context(), signals);
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes.front(), Catch::Contains("model.family: is not all used"));
}

TEST_CASE("an answer of another form is no answer", "[launcher]") {
  CHECK(parse_look(R"({"defects": [], "notes": []})")->wrong.empty());
  const auto one = parse_look(R"({"defects": [{"code": 65, "key": "k", "what": "w"}],
                                  "notes": [{"key": "l", "what": "v"}]})");
  REQUIRE(one);
  REQUIRE(one->wrong.size() == 1);
  CHECK(one->wrong.front().code == ExitCode::kBadData);
  CHECK(one->wrong.front().key == "k");
  CHECK(one->wrong.front().what == "w");
  REQUIRE(one->noted.size() == 1);
  CHECK(one->noted.front().key == "l");
  CHECK(one->noted.front().what == "v");
  for (const char* bad :
       {"", "{", "[]", "{}", R"({"defects": []})", R"({"defects": 1, "notes": []})",
        R"({"defects": [1], "notes": []})", R"({"defects": [{}], "notes": []})",
        R"({"defects": [{"code": "65", "key": "k", "what": "w"}], "notes": []})",
        R"({"defects": [{"code": 65, "what": "w"}], "notes": []})",
        R"({"defects": [{"code": 65, "key": "k", "what": 1}], "notes": []})",
        R"({"defects": [], "notes": [{"key": "k"}]})"}) {
    CHECK_FALSE(parse_look(bad));
  }
}

TEST_CASE("explain says of a key what it is and where that comes from", "[launcher]") {
  Folder folder("{\n  \"train_batch_size\": 8,\n  \"train\": {\"steps\": 5}}");
  ExplainOptions options = explain_key("train.steps");
  int code = -1;
  const auto explained = [&] { return testing::printed_by([&] { code = run_explain(options); }); };
  CHECK_THAT(explained().out, Catch::Contains("5") && Catch::Contains("train.json:3:"));
  CHECK(code == 0);
  options.overrides = {"train.steps=9"};
  CHECK_THAT(explained().out, Catch::Contains("9") && Catch::Contains("command line"));
  options.json = true;
  const std::string text = explained().out;
  const Value json = read_config_document(text, "explain");
  REQUIRE(json.find("values")->items().size() == 1);
  CHECK(json.find("values")->items()[0].find("path")->as_string() == "train.steps");
  CHECK(json.find("values")->items()[0].find("value")->as_integer() == 9);
  CHECK(json.find("errors")->items().empty());
  options.key = "train.no_such";
  CHECK_THROWS_AS(explained(), UsageError);
}

TEST_CASE("explain shows what it can of a file with errors, and ends with 78", "[launcher]") {
  Folder folder(R"({"train_batch_size": 8, "gradient_clippin": 1})");
  int code = -1;
  const testing::Printed printed =
      testing::printed_by([&] { code = run_explain(explain_key("")); });
  CHECK(code == 78);
  CHECK_THAT(printed.out, Catch::Contains("train_batch_size"));
  CHECK_THAT(printed.error, Catch::StartsWith("error: ") && Catch::Contains("gradient_clippin"));
}

TEST_CASE("explain of a key alone tells what each type has", "[launcher]") {
  Folder folder("{}");
  ExplainOptions options;
  options.config = "optimizer.params.lr";
  int code = -1;
  const auto explained = [&] { return testing::printed_by([&] { code = run_explain(options); }); };
  CHECK_THAT(explained().out, Catch::Contains("  0.02 where type is Muon\n") &&
                                  Catch::Contains("  0.001 where type is Adam or "));
  CHECK(code == 0);
  options.json = true;
  const std::string all = explained().out;
  const Value json = read_config_document(all, "explain");
  CHECK(json.find("values")->items().empty());
  REQUIRE(json.find("keys")->items().size() > 5);
  CHECK(json.find("keys")->items()[0].find("where")->as_string() ==
        "type is Adam or AdamW or MuAdam or MuAdamW");
  CHECK(json.find("keys")->items()[0].find("default")->as_number() == 0.001);
  options.overrides = {"optimizer.type=Muon"};
  const std::string muon = explained().out;
  const Value one = read_config_document(muon, "explain");
  REQUIRE(one.find("keys")->items().size() == 1);
  CHECK(one.find("keys")->items()[0].find("default")->as_number() == 0.02);
  CHECK(one.find("values")->items()[0].find("value")->as_number() == 0.02);
  options.json = false;
  CHECK_THAT(explained().out, Catch::Contains("\ndefault: 0.02\n") && !Catch::Contains("0.001"));
}

TEST_CASE("a section of that name is told although a folder has it, too", "[launcher]") {
  Folder folder("{}");
  std::filesystem::create_directory("data");
  ExplainOptions options;
  options.config = "data";
  CHECK_THAT(testing::printed_by([&] { run_explain(options); }).out,
             Catch::StartsWith("data\n") && Catch::Contains("\ndata.sequence_length "));
}

TEST_CASE("a word that is neither a file nor a key names the nearest key", "[launcher]") {
  Folder folder("{}");
  ExplainOptions options;
  options.config = "optimizer.parms.lr";
  CHECK_THROWS_WITH(run_explain(options),
                    Catch::Contains("neither a file") &&
                        Catch::Contains("if a key is meant, the nearest is optimizer.params.lr"));
}

}  // namespace ds
