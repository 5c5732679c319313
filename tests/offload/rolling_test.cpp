// The order of rolling parts through buffers: as golden files, and what must hold of every plan.
#include "offload/rolling.h"

#include <map>
#include <set>
#include <sstream>

#include "core/status/error.h"
#include "core/values/index.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

std::string answer(const std::string& command) {
  std::istringstream in(command);
  std::string word;
  RollingOptions options;
  size_t parts = 0;
  in >> word >> parts >> word >> options.buffers;
  options.part_bytes.assign(parts, 4096);
  while (in >> word) {
    if (word == "pipeline_read") options.pipeline_read = true;
    if (word == "pipeline_write") options.pipeline_write = true;
    if (word == "read") options.access = RollingAccess::kRead;
    if (word == "fill") options.access = RollingAccess::kFill;
  }
  try {
    return plan_rolling(options).to_string();
  } catch (const ConfigError& error) {
    return std::string("refused: ") + error.what();
  } catch (const InternalError&) {
    return "refused: a mistake of the caller";
  }
}

TEST_CASE("parts pass through the buffers as the golden file says", "[offload]") {
  testing::run_golden("offload/rolling.txt", answer);
}

// Follows a plan and fails where a buffer would be overwritten or a part be missed.
class Follower {
 public:
  explicit Follower(const RollingOptions& options) : options_(options) {}

  void follow(const RollingPlan& plan) {
    for (const RollingAction& action : plan.actions) act(action);
    for (size_t part = 0; part < options_.part_bytes.size(); ++part) {
      REQUIRE(worked_.contains(narrow<int>(part)));
    }
    REQUIRE(reading_.empty());
    REQUIRE(writing_.empty());
    REQUIRE(holds_.empty());
  }
  int reads_during_work() const { return reads_during_work_; }
  int writes_during_work() const { return writes_during_work_; }

 private:
  void act(const RollingAction& action) {
    const int part = action.part;
    REQUIRE(action.buffer >= 0);
    REQUIRE(action.buffer < options_.buffers);
    switch (action.step) {
      case RollingStep::kRead:
        REQUIRE(!holds_.contains(action.buffer));
        REQUIRE(!worked_.contains(part));
        holds_[action.buffer] = part;
        REQUIRE(reading_.insert(part).second);
        break;
      case RollingStep::kAwaitRead:
        REQUIRE(reading_.erase(part) == 1);
        break;
      case RollingStep::kWork:
        work(part, action.buffer);
        break;
      case RollingStep::kWrite:
        REQUIRE(worked_.contains(part));
        REQUIRE(holds_.at(action.buffer) == part);
        REQUIRE(writing_.insert(part).second);
        break;
      case RollingStep::kAwaitWrite:
        REQUIRE(writing_.erase(part) == 1);
        REQUIRE(holds_.at(action.buffer) == part);
        holds_.erase(action.buffer);
        break;
    }
  }

  void work(int part, int buffer) {
    if (options_.access == RollingAccess::kFill) {
      REQUIRE(!holds_.contains(buffer));
      holds_[buffer] = part;
    }
    REQUIRE(holds_.at(buffer) == part);
    REQUIRE(!reading_.contains(part));
    REQUIRE(!writing_.contains(part));
    REQUIRE(part == narrow<int>(worked_.size()));  // in order, each once
    worked_.insert(part);
    reads_during_work_ += reading_.empty() ? 0 : 1;
    writes_during_work_ += writing_.empty() ? 0 : 1;
    if (options_.access == RollingAccess::kRead) holds_.erase(buffer);
  }

  const RollingOptions& options_;
  std::map<int, int> holds_;  // buffer -> part
  std::set<int> reading_, writing_, worked_;
  int reads_during_work_ = 0;
  int writes_during_work_ = 0;
};

void check_plan(const RollingOptions& options) {
  const RollingPlan plan = plan_rolling(options);
  Follower follower(options);
  follower.follow(plan);
  const int parts = narrow<int>(options.part_bytes.size());
  // The overlap that was asked for is there at every part that has a next one, or one before it.
  const bool ahead = options.pipeline_read && options.access != RollingAccess::kFill;
  const bool behind = options.pipeline_write && options.access != RollingAccess::kRead;
  const int others = std::max(parts - 1, 0);
  CHECK(follower.reads_during_work() == (ahead ? others : 0));
  CHECK(follower.writes_during_work() == (behind ? others : 0));
}

TEST_CASE("no buffer is overwritten, no part is missed, and what should overlap does",
          "[offload]") {
  int refused = 0;
  for (size_t parts = 0; parts < 9; ++parts) {
    for (int buffers = 1; buffers < 7; ++buffers) {
      for (int flags = 0; flags < 12; ++flags) {
        RollingOptions options{.part_bytes = std::vector<int64_t>(parts, 8),
                               .buffers = buffers,
                               .pipeline_read = (flags & 1) != 0,
                               .pipeline_write = (flags & 2) != 0,
                               .access = static_cast<RollingAccess>(flags / 4)};
        CAPTURE(parts, buffers, flags);
        if (buffers < buffers_needed(options)) {
          CHECK_THROWS_AS(plan_rolling(options), ConfigError);
          ++refused;
        } else {
          check_plan(options);
        }
      }
    }
  }
  CHECK(refused > 0);
}

TEST_CASE("a buffer has room for the largest part", "[offload]") {
  const RollingPlan plan = plan_rolling({.part_bytes = {5, 900, 17}, .buffers = 1});
  CHECK(plan.buffer_bytes == 900);
  CHECK_THROWS_AS(plan_rolling({.part_bytes = {5, 0}, .buffers = 1}), InternalError);
}

}  // namespace
}  // namespace ds
