// What a tuning run reads and what it tells.
#include "rankd/verbs/storage/tune_files.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

const std::vector<IoTrial> kTrials{
    {{.io_parallel = 1}, 1e9, 2e9}, {{.io_parallel = 8}, 3e9, 2e9}, {{.queue_depth = 4}, 2e9, 1e9}};

}  // namespace

TEST_CASE("a sweep file names axes with a value or several, the others keep theirs", "[rankd]") {
  const SweepSpace space = read_sweep(
      R"({"block_size": ["128K", 1048576, "1G"], "queue_depth": 4, "sequential_requests": [true]})",
      "sweep.json");
  CHECK(space.block_sizes == std::vector<int64_t>{1 << 17, 1 << 20, 1 << 30});
  CHECK(space.queue_depths == std::vector{4});
  CHECK(space.overlap_events == std::vector{false});
  CHECK(space.single_submits == SweepSpace{}.single_submits);
  CHECK(space.io_parallels == SweepSpace{}.io_parallels);
}

TEST_CASE("what is wrong with a sweep file is told with its place", "[rankd]") {
  const auto refusal = [](const std::string& text) {
    try {
      read_sweep(text, "sweep.json");
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  CHECK_THAT(refusal(R"({"block_sizes": 1})"),
             Catch::Contains("sweep.json:1:2: block_sizes is no"));
  CHECK_THAT(refusal(R"({"block_size": "1X"})"),
             Catch::Contains("sweep.json:1:16: block_size: got"));
  CHECK_THAT(refusal(R"({"block_size": 1000})"), Catch::Contains("a multiple of 4096"));
  CHECK_THAT(refusal(R"({"queue_depth": [8, 0]})"), Catch::Contains("an integer from 1 to 65536"));
  CHECK_THAT(refusal(R"({"queue_depth": [8, 8]})"), Catch::Contains("each value once"));
  CHECK_THAT(refusal(R"({"queue_depth": []})"), Catch::Contains("at least one value"));
  CHECK_THAT(refusal(R"({"single_submit": "perhaps"})"), Catch::Contains("true or false"));
  CHECK_THAT(refusal(R"({"io_parallel": [1,)"), Catch::Contains("sweep.json:1:"));
}

TEST_CASE("the section to paste is that of the fastest setting", "[rankd]") {
  CHECK(best_of(kTrials).setting.io_parallel == 8);
  const Value json = trials_json(kTrials, false);
  CHECK(json.find("read_gb_per_s")->as_number() == 3);
  CHECK(json.find("aio")->find("thread_count")->as_integer() == 8);
  CHECK(json.find("trials")->items().size() == 3);
  CHECK(to_compact_json(aio_section({.io_parallel = 8}, true)) ==
        R"({"aio":{"single_submit":false,"overlap_events":true,"thread_count":8,)"
        R"("queue_depth":32,"block_size":1048576,"use_gds":true}})");
}

TEST_CASE("the table begins with the fastest and the picture has a line for each direction",
          "[rankd]") {
  const std::string table = trials_table(kTrials, 2);
  CHECK(table ==
        "   block  depth  requests    submit  threads  read GB/s  write GB/s\n"
        "   1 MiB     32  overlapped  batch         8       3.00        2.00\n"
        "   1 MiB     32  overlapped  batch         1       1.00        2.00\n");
  const std::string plot = trials_plot(kTrials, "GB/s of /disk");
  CHECK_THAT(plot, Catch::Contains(">read</text>"));
  CHECK_THAT(plot, Catch::Contains(">write</text>"));
  CHECK_THAT(plot, Catch::Contains(">GB/s of /disk</text>"));
}

}  // namespace ds
