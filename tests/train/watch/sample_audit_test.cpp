#include "train/watch/sample_audit.h"

#include <fstream>
#include <sstream>

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"
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

TEST_CASE("every micro-step leaves a line, and a later epoch goes on below", "[train]") {
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
        "{\"epoch\": 1, \"step\": 1, \"micro_step\": 0, \"samples\": [4, 7]}\n"
        "{\"epoch\": 1, \"step\": 1, \"micro_step\": 1, \"samples\": [9]}\n"
        "{\"epoch\": 2, \"step\": 1, \"micro_step\": 0, \"samples\": []}\n");
}

TEST_CASE("an audit that cannot be written is an error that names its file", "[train]") {
  const testing::TemporaryDirectory run;
  CHECK_THROWS_WITH(SampleAudit(run.path().string(), 0, 1),
                    Catch::Contains("logs/samples-rank-0.jsonl"));
  std::filesystem::create_directory(run.path() / "logs");
  std::filesystem::create_symlink("/dev/full", run.path() / "logs" / "samples-rank-0.jsonl");
  CHECK_THROWS_AS(SampleAudit(run.path().string(), 0, 1), IoError);  // follows no link
}

TEST_CASE("memory that training holds at its end is what it took", "[train]") {
  ResidentMemory watch;
  constexpr size_t kBytes = size_t{64} << 20;
  const std::vector<char> held(kBytes, 'x');
  Measured before;
  watch.measure(before);
  CHECK(before.rss_bytes_peak == 0);  // nobody has looked yet
  watch.before_exit(RunEnd::kDone);
  Measured after;
  watch.measure(after);
  CHECK(after.rss_bytes_peak > static_cast<int64_t>(kBytes * 3 / 4));
  CHECK(after.rss_bytes_peak < static_cast<int64_t>(kBytes * 4));
  CHECK(held.back() == 'x');
}

}  // namespace ds
