#include "launcher/report/metrics_file.h"

#include <fmt/format.h>

#include <fstream>
#include <random>
#include <sstream>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// What every file has to say after the steps that were added: each step once, the newest word of
// it, and none that was done before an older one was done again.
class Expected {
 public:
  void add(const StepMetrics& metrics) {
    while (!steps_.empty() && steps_.back().step >= metrics.step) steps_.pop_back();
    steps_.push_back(metrics);
  }
  void check(const RunDirectory& run) const {
    std::vector<std::string> json;
    std::vector<std::string> csv;
    std::istringstream header(metrics_csv_header());
    csv.emplace_back();
    std::getline(header, csv.back());
    for (const StepMetrics& step : steps_) {
      json.push_back(metrics_json(step));
      json.back().pop_back();
      csv.push_back(metrics_csv(step));
      csv.back().pop_back();
    }
    REQUIRE(lines_of(run.file("metrics.jsonl")) == json);
    REQUIRE(lines_of(run.file("metrics.csv")) == csv);
  }
  void check(const std::vector<MetricsFile::Point>& points) const {
    REQUIRE(points.size() == steps_.size());
    for (size_t i = 0; i < points.size(); ++i) {
      CHECK(points[i].step == steps_[i].step);
      CHECK(points[i].loss == steps_[i].values.at("loss"));
      CHECK(points[i].validation_loss == steps_[i].values.find("validation_loss"));
    }
  }

 private:
  std::vector<StepMetrics> steps_;
};

}  // namespace

TEST_CASE("whatever launches, epochs and torn lines a run has, each step stands there once",
          "[launcher]") {
  std::mt19937 random(17);
  for (int round = 0; round < 30; ++round) {
    const testing::TemporaryDirectory here;
    const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
    Expected expected;
    int64_t at = 0;
    for (auto launches = 1 + random() % 4; launches > 0; --launches) {
      MetricsFile metrics(run);
      for (auto epochs = 1 + random() % 3; epochs > 0; --epochs) {
        for (auto steps = 1 + random() % 6; steps > 0; --steps) {
          StepMetrics step{.step = ++at, .values = {}};
          step.values.set("loss", static_cast<double>(random() % 1000) / 7);
          if (random() % 3 == 0)
            step.values.set("validation_loss", static_cast<double>(random() % 1000) / 3);
          metrics.add(step);
          expected.add(step);
          if (random() % 2 == 0) metrics.flush();
        }
        at -= static_cast<int64_t>(random() %
                                   static_cast<unsigned>(at + 1));  // the next resumes here
      }
      metrics.flush();
      expected.check(run);
      expected.check(metrics.points());
      if (random() % 2 == 0) {  // killed while it wrote
        std::ofstream(run.file("metrics.jsonl"), std::ios::app) << "{\"step\": 1, \"lo";
        std::ofstream(run.file("metrics.csv"), std::ios::app) << "1,2";
      }
    }
  }
}

TEST_CASE("a file that cannot be written costs no step once it can", "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  Expected expected;
  MetricsFile metrics(run);
  const auto add = [&](int64_t number) {
    StepMetrics step{.step = number, .values = {{"loss", 1.5}}};
    metrics.add(step);
    expected.add(step);
  };
  fs::create_directory(run.file("metrics.csv"));
  add(1);
  CHECK_THROWS_AS(metrics.flush(), DataError);
  add(2);
  CHECK_THROWS_AS(metrics.flush(), DataError);
  CHECK(metrics.points().empty());  // nothing is written
  fs::remove(run.file("metrics.csv"));
  metrics.flush();
  expected.check(run);
  expected.check(metrics.points());
}

TEST_CASE("losses that are no numbers are null in JSON, and read as such", "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  {
    MetricsFile metrics(run);
    metrics.add({.step = 1, .values = {{"loss", std::nan("")}}});
    metrics.add({.step = 2, .values = {{"loss", 2}}});
    metrics.flush();
  }
  CHECK_THAT(lines_of(run.file("metrics.jsonl")).at(0), Catch::Contains("\"loss\": null"));
  MetricsFile later(run);
  later.add({.step = 3, .values = {{"loss", 3}}});
  later.flush();
  REQUIRE(later.points().size() == 2);  // of step 1 there is nothing to draw
  CHECK(later.points()[0].step == 2);
  CHECK(lines_of(run.file("metrics.jsonl")).size() == 3);
}

}  // namespace ds
