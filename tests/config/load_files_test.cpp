// Configurations out of files: includes beside them, relative paths, base64, and what is said of
// places where there is nothing.
#include <filesystem>
#include <fstream>

#include "config/load.h"
#include "config/reader/json_reader.h"
#include "core/files/home.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {

namespace {

// A folder on the disk with files in it.
class Folder {
 public:
  std::string put(const std::string& name, const std::string& text) {
    const std::filesystem::path path = scratch_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string path(const std::string& name) const {
    return std::filesystem::weakly_canonical(scratch_.path()) / name;
  }

 private:
  testing::TemporaryDirectory scratch_;
};

}  // namespace

TEST_CASE("relative paths of a file are relative to its folder", "[config]") {
  Folder folder;
  const std::string file = folder.put("jobs/train.json", R"({"model": "../models/m",
      "data": {"train": ["a.txt", "/data/b.txt", "./c/../d.txt"], "validation": ["v.txt"],
               "tokenizer": "tok"}})");
  const Config config = load_config(file);
  const std::filesystem::path jobs = std::filesystem::path(file).parent_path();
  CHECK(config.model.folder == (jobs / "../models/m").lexically_normal().string());
  CHECK(config.data.train == std::vector<std::string>{(jobs / "a.txt").string(), "/data/b.txt",
                                                      (jobs / "d.txt").string()});
  CHECK(config.data.validation == std::vector<std::string>{(jobs / "v.txt").string()});
  CHECK(config.data.tokenizer == (jobs / "tok").string());
}

TEST_CASE("a ~ that no shell expanded is the home folder, in every key that is a path",
          "[config]") {
  const std::string home = expand_home("~").value();
  const Config config = parse_config(R"({"model": "~/m", "data": {"train": ["~/a.txt", "b/~"],
      "validation": ["~"], "tokenizer": "~/tok"}, "tensorboard": {"output_path": "~/tb"},
      "csv_monitor": {"output_path": "~/csv"}, "flops_profiler": {"output_file": "~/flops"},
      "zero_optimization": {"stage": 3,
        "offload_param": {"device": "nvme", "nvme_path": "~/p"},
        "offload_optimizer": {"device": "nvme", "nvme_path": "~/o"}}})");
  CHECK(config.model.folder == home + "/m");
  CHECK(config.data.train == std::vector<std::string>{home + "/a.txt", "b/~"});
  CHECK(config.data.validation == std::vector<std::string>{home});
  CHECK(config.data.tokenizer == home + "/tok");
  CHECK(config.tensorboard.output_path == home + "/tb");
  CHECK(config.csv_monitor.output_path == home + "/csv");
  CHECK(config.flops_profiler.output_file == home + "/flops");
  CHECK(config.zero_optimization.offload_param->nvme_path == home + "/p");
  CHECK(config.zero_optimization.offload_optimizer->nvme_path == home + "/o");
  CHECK_THROWS_WITH(parse_config(R"({"data": {"train": ["~nobody-of-this-name/a"]}})"),
                    Catch::Contains("data.train: ~nobody-of-this-name/a: no user has"));
}

TEST_CASE("a URL is no file of this machine, and its password is not repeated", "[config]") {
  const auto said = [](const std::string& text) {
    try {
      parse_config(text);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  CHECK_THAT(said(R"({"data": {"train": "hf://datasets/wikitext"}})"),
             Catch::Contains("config:1:20: data.train: \"hf://datasets/wikitext\" is a URL, and "
                             "files and folders of this machine are meant") &&
                 Catch::Contains("hf download NAME --repo-type dataset --local-dir DIR"));
  CHECK_THAT(said(R"({"model": "https://huggingface.co/gpt2"})"),
             Catch::Contains("model.folder: ") && Catch::Contains("hf download NAME --local-dir"));
  CHECK_THAT(said(R"({"data": {"train": "https://me:hunter2@example.com/x.txt"}})"),
             Catch::Contains("https://(kept secret)@example.com/x.txt") &&
                 Catch::Contains("curl -LO URL") && !Catch::Contains("hunter2"));
  CHECK_THAT(said(R"({"data": {"train": "file:///tmp/x.txt"}})"),
             Catch::Contains("write the path without file://"));
  CHECK(said(R"({"data": {"train": "a:b//c.txt"}})") == "taken");
  const ReadConfig read = read_config_text(R"({"data": {"train": "s3://a/b"}})", "f", {}, "/jobs");
  CHECK(read.config.data.train == std::vector<std::string>{"s3://a/b"});  // no path was made of it
}

TEST_CASE("the byte tokenizer is no path", "[config]") {
  Folder folder;
  CHECK(load_config(folder.put("t.json", R"({"data": {"tokenizer": "byte"}})")).data.tokenizer ==
        "byte");
}

TEST_CASE("paths of a text without a folder stay as they are", "[config]") {
  CHECK(parse_config(R"({"data": {"train": ["a.txt"]}})").data.train ==
        std::vector<std::string>{"a.txt"});
  CHECK(read_config_text(R"({"data": {"train": ["a.txt"]}})", "f", {}, "/jobs").config.data.train ==
        std::vector<std::string>{"/jobs/a.txt"});
}

TEST_CASE("includes are found beside the file, and values name the file that has them",
          "[config]") {
  Folder folder;
  folder.put("base/all.json", R"({"include": "more.json", "gradient_clipping": 0.25})");
  folder.put("base/more.json", R"({"train": {"steps": 5, "seed": 9}})");
  const std::string file =
      folder.put("train.json", R"({"include": ["base/all.json"], "train": {"steps": 7}})");
  const ReadConfig read = read_config(file);
  CHECK_FALSE(read.problems.has_errors());
  CHECK(read.config.train.steps == 7);
  CHECK(read.config.train.seed == 9);
  CHECK(read.config.gradient_clipping == 0.25);
  CHECK(read.origins.at("train.seed").text() == "more.json:1:32");
  CHECK(read.origins.at("train.steps").text() == file + ":1:51");
}

TEST_CASE("a file that includes itself by another spelling is found out", "[config]") {
  Folder folder;
  folder.put("sub/b.json", R"({"include": "../sub/../a.json"})");
  const std::string file = folder.put("a.json", R"({"include": "sub/b.json"})");
  CHECK_THROWS_WITH(read_config(file), Catch::Contains("includes itself"));
}

TEST_CASE("what is wrong in an included file is told with its name", "[config]") {
  Folder folder;
  folder.put("base.json", "{\n\"train_batch_size\": -1,\n\"train_batch_size\": 2}");
  const ReadConfig read = read_config(folder.put("t.json", R"({"include": "base.json"})"));
  std::string said;
  for (const Problem& problem : read.problems.all()) said += problem.text() + "\n";
  CHECK_THAT(said, Catch::Contains("base.json:3:1: duplicate key \"train_batch_size\", first given "
                                   "at base.json:2:1"));
  CHECK_THAT(said, Catch::Contains("base.json:2:21: train_batch_size: got -1"));
  folder.put("base.json", "[]");
  CHECK_THROWS_WITH(read_config(folder.path("t.json")),
                    Catch::StartsWith("base.json:1:1: the document is a list"));
}

TEST_CASE("an include that is not there is named", "[config]") {
  Folder folder;
  const std::string file = folder.put("t.json", R"({"include": "gone.json"})");
  CHECK_THROWS_AS(read_config(file), InputMissing);
  CHECK_THROWS_WITH(read_config(file), Catch::Contains("gone.json"));
}

TEST_CASE("base64 is taken where there is no file of that name", "[config]") {
  CHECK(load_config("eyJ0cmFpbl9iYXRjaF9zaXplIjogOH0=").train_batch_size == 8);
  const std::vector<std::string> overrides = {"train_batch_size=16"};
  CHECK(load_config("eyJ0cmFpbl9iYXRjaF9zaXplIjogOH0=", overrides).train_batch_size == 16);
  // What it holds is told as any other text.
  CHECK_THROWS_WITH(read_config("e25vIGpzb24h"), Catch::StartsWith("base64:1:2: "));
  for (const char* place : {"train.json", "gone", "", "eyJ0", "eyJ0cmFpbl9iYXRja", "a/b/c/d/e/"}) {
    CAPTURE(place);
    CHECK_THROWS_AS(read_config(place), Error);
  }
  CHECK_THROWS_WITH(read_config("configs/train.json"),
                    "config: configs/train.json is neither a file nor base64 of a configuration");
  // Names of files that are base64 by chance.
  for (const char* place : {"gone.json", "trainjsn", "configs/trainjsn"}) {
    CAPTURE(place);
    CHECK_THROWS_AS(read_config(place), InputMissing);
  }
}

TEST_CASE("overrides work in their order, and each that is wrong is told", "[config]") {
  const std::vector<std::string> overrides = {"train.steps=1", "train.steps=2", "~train.steps",
                                              "train.steps=3", "stray",         "+train.steps=4"};
  const ReadConfig read = read_config_text("{}", "f", overrides);
  CHECK(read.config.train.steps == 3);
  std::string said;
  for (const Problem& problem : read.problems.all()) said += problem.text() + "\n";
  CHECK_THAT(said, Catch::Contains("override \"stray\": expected key=value"));
  CHECK_THAT(said, Catch::Contains("override \"+train.steps=4\": steps is already given"));
}

TEST_CASE("all errors of a file are thrown at once, each on its line", "[config]") {
  Folder folder;
  const std::string file =
      folder.put("t.json", "{\"train_batch_size\": 0,\n \"stepsperprint\": 1,\n \"fp16\": 3}");
  try {
    load_config(file);
    FAIL("it was taken");
  } catch (const ConfigError& error) {
    const std::string said = error.what();
    CHECK(std::count(said.begin(), said.end(), '\n') == 2);
    for (const char* place :
         {":1:22: train_batch_size: ", ":2:2: stepsperprint: ", ":3:10: fp16: "}) {
      CHECK_THAT(said, Catch::Contains(file + place));
    }
  }
}

TEST_CASE("a file beyond the limit is refused without being read whole", "[config]") {
  Folder folder;
  const std::string file = folder.put("t.json", std::string(3 * kMaxTextBytes, ' '));
  CHECK_THROWS_WITH(read_config(file),
                    Catch::Contains(fmt::format("at most {} are read", kMaxTextBytes)));
}

}  // namespace ds
