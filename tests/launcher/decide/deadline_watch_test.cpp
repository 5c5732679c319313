#include "launcher/decide/watch/deadline_watch.h"

#include "launcher/run/job_end.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

}  // namespace

TEST_CASE("a long job keeps a minute and a margin until it has saved", "[launcher]") {
  const DeadlineWatch watch(seconds(100), seconds(100) + hours(24));
  CHECK(watch.end() == seconds(100) + hours(24));
  CHECK(watch.stop_at() == watch.end() - seconds(60) - seconds(30));
  CHECK_FALSE(watch.due(watch.stop_at() - milliseconds(1)));
  CHECK(watch.due(watch.stop_at()));
}

TEST_CASE("a short job keeps a tenth for each", "[launcher]") {
  CHECK(DeadlineWatch(seconds(0), seconds(100)).stop_at() == seconds(80));
  CHECK(DeadlineWatch(seconds(50), seconds(50)).due(seconds(50)));
  CHECK(DeadlineWatch(seconds(50), seconds(20)).due(seconds(50)));  // it should have ended long ago
}

TEST_CASE("measured saves and steps replace the guess", "[launcher]") {
  DeadlineWatch watch(seconds(0), hours(1));
  const Time latest = hours(1) - seconds(30);
  watch.saved(seconds(10), seconds(4));
  CHECK(watch.stop_at() == latest - seconds(6));
  watch.saved(seconds(20), seconds(2));
  CHECK(watch.stop_at() == latest - seconds(6));  // the longest counts
  watch.saved(minutes(2), seconds(100));
  CHECK(watch.stop_at() == latest - seconds(150));
  watch.stepped(minutes(2) + seconds(5));
  CHECK(watch.stop_at() == latest - seconds(150) - seconds(5));
  watch.restarted();  // loading is no step
  watch.stepped(minutes(5));
  watch.stepped(minutes(5) + seconds(7));
  watch.stepped(minutes(5) + seconds(8));
  CHECK(watch.stop_at() == latest - seconds(150) - seconds(7));
}

TEST_CASE("time left as squeue writes it", "[launcher]") {
  CHECK(parse_slurm_time_left("59") == Time(seconds(59)));
  CHECK(parse_slurm_time_left("0:00") == Time(seconds(0)));
  CHECK(parse_slurm_time_left("4:05") == Time(seconds(245)));
  CHECK(parse_slurm_time_left("1:02:03") == Time(seconds(3723)));
  CHECK(parse_slurm_time_left("2-03:04:05") == Time(hours(51) + seconds(245)));
  for (const char* text : {"", "UNLIMITED", "NOT_SET", "INVALID", "-1", "1:60", "1:2:3:4", "1-",
                           "x:1", "1:", ":1", "9999999999", "1--2"}) {
    INFO(text);
    CHECK_FALSE(parse_slurm_time_left(text));
  }
}

TEST_CASE("the end of a Slurm job is in its environment, or asked for", "[launcher]") {
  CHECK_FALSE(slurm_time_left({}, 1000).left);
  CHECK_FALSE(slurm_time_left({"SLURM_JOB_END_TIME=1500"}, 1000).left);
  CHECK(slurm_time_left({"SLURM_JOB_ID=1", "SLURM_JOB_END_TIME=1500"}, 1000).left ==
        Time(seconds(500)));
  CHECK(slurm_time_left({"SLURM_JOB_ID=1", "SLURM_JOB_END_TIME=900"}, 1000).left == Time::zero());
  const TimeLeft unknown = slurm_time_left({"SLURM_JOB_ID=1", "PATH=/nowhere"}, 1000);
  CHECK_FALSE(unknown.left);
  CHECK_THAT(unknown.note, Catch::Contains("squeue") && Catch::Contains("--time-limit"));
}

}  // namespace ds
