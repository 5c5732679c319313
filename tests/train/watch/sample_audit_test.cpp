#include "train/watch/sample_audit.h"

#include <fstream>
#include <sstream>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "train/watch/resident_memory.h"

namespace ds {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("every micro-step leaves a line, and a later generation goes on below", "[train]") {
  const testing::TemporaryDirectory run;
  std::filesystem::create_directory(run.path() / "logs");
  {
    SampleAudit audit(run.path().string(), 3, 1);
    audit.on_samples(0, 0, std::vector<int64_t>{4, 7});
    audit.on_samples(0, 1, std::vector<int64_t>{9});
  }
  SampleAudit later(run.path().string(), 3, 2);
  later.on_samples(0, 0, {});
  CHECK(content(run.path() / "logs" / "samples-rank-3.jsonl") ==
        "{\"generation\": 1, \"step\": 1, \"micro_step\": 0, \"samples\": [4, 7]}\n"
        "{\"generation\": 1, \"step\": 1, \"micro_step\": 1, \"samples\": [9]}\n"
        "{\"generation\": 2, \"step\": 1, \"micro_step\": 0, \"samples\": []}\n");
}

TEST_CASE("an audit that cannot be written is an error that names its file", "[train]") {
  const testing::TemporaryDirectory run;
  CHECK_THROWS_WITH(SampleAudit(run.path().string(), 0, 1),
                    Catch::Contains("logs/samples-rank-0.jsonl"));
  std::filesystem::create_directory(run.path() / "logs");
  std::filesystem::create_symlink("/dev/full", run.path() / "logs" / "samples-rank-0.jsonl");
  CHECK_THROWS_AS(SampleAudit(run.path().string(), 0, 1), IoError);  // follows no link
}

TEST_CASE(
    "the peak of resident memory is that of all the process, and stays when memory is given "
    "back",
    "[train]") {
  const int64_t before = resident_bytes_peak();
  CHECK(before > int64_t{1} << 20);  // the program itself
  // Above what earlier tests have left resident.
  const size_t bytes = static_cast<size_t>(before) + (size_t{64} << 20);
  {
    const std::vector<char> held(bytes, 'x');
    CHECK(held.back() == 'x');
  }
  const int64_t after = resident_bytes_peak();
  CHECK(after > static_cast<int64_t>(bytes * 3 / 4));
  CHECK(after < static_cast<int64_t>(bytes) * 4);
}

}  // namespace ds
