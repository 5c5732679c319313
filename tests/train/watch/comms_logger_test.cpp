// Which calls the communication log has, by the keys of its section.
#include "train/watch/comms_logger.h"

#include <set>

#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/ranks.h"
#include "tests/train/heard_reports.h"

namespace ds {
namespace {

void call(CallQueue& calls, CommOp op, const char* label) {
  calls.on_call({.axis = "data",
                 .op = op,
                 .bytes = 1024,
                 .ranks = 2,
                 .label = label,
                 .begin = StreamMoment::of_host(),
                 .end = StreamMoment::of_host()});
}

// What the log has after steps with a call between parts and two in one, each as "all_gather" or
// with who called it; or the line that says that it has nothing.
std::set<std::string> logged(const CommsLoggerConfig& config) {
  std::set<std::string> out;
  test::run_ranks(1, [&](Communicator& comm) {
    HostExchange host(comm);
    testing::CpuStream cpu;
    testing::HeardReports heard;
    CallQueue calls;
    StepTimer timer(cpu.stream, calls);
    CommsLogger logger(timer, host, heard, config);
    const PipelineInstruction forward{
        .op = PipelineOp::kForwardPass, .buffer = 0, .micro_batch = 0};
    for (int64_t done = 0; done < 2; ++done) {
      call(calls, CommOp::kBarrier, "");
      timer.before_instruction(done, forward);
      call(calls, CommOp::kAllGather, "transformer.h.1");
      call(calls, CommOp::kReduceScatter, "transformer.h.0");
      timer.after_instruction(done, forward);
      const StepReport report{.step = done + 1, .seconds = 0.01, .metrics = {}};
      timer.after_step(report);
      logger.after_step(report);
    }
    logger.before_exit(RunEnd::kDone);
    for (const std::string& line : heard.take()) {
      if (!line.starts_with(" ") && !line.starts_with("Comm. Op")) out.insert(line);
    }
  });
  return out;
}

using Lines = std::set<std::string>;

}  // namespace

TEST_CASE("the communication log has all operations, or those that are named", "[train]") {
  const Lines all{"all_gather", "barrier", "reduce_scatter"};
  CHECK(logged({.enabled = true}) == all);
  CHECK(logged({.enabled = true, .prof_all = true, .prof_ops = {"all_gather"}}) == all);
  CHECK(logged({.enabled = true, .prof_all = false, .prof_ops = {"all_gather", "all_reduce"}}) ==
        Lines{"all_gather"});
  CHECK(logged({.enabled = true, .prof_all = false, .prof_ops = {"barrier", "reduce_scatter"}}) ==
        Lines{"barrier", "reduce_scatter"});
  const Lines nothing{"communication log: no call was recorded"};
  CHECK(logged({.enabled = true, .prof_all = false}) == nothing);
  CHECK(logged({.enabled = true, .prof_all = false, .prof_ops = {"send"}}) == nothing);
}

TEST_CASE("operations are told with who called them where that is asked for", "[train]") {
  CHECK(logged({.enabled = true, .prof_all = false, .debug = true, .prof_ops = {"all_gather"}}) ==
        Lines{"all_gather | [Caller: transformer.h.1]"});
}

TEST_CASE("the operations that a file may name are those that there are", "[train]") {
  Lines there;
  for (int op = 0; op <= static_cast<int>(CommOp::kSplit); ++op) {
    there.emplace(name_of(static_cast<CommOp>(op)));
  }
  CHECK(Lines(logged_operations().begin(), logged_operations().end()) == there);
}

}  // namespace ds
