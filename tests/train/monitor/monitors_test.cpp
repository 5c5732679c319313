#include "train/monitor/monitors.h"

#include <atomic>

#include "config/load.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/train/heard_reports.h"

namespace ds {
namespace {

// Keeps what it was given as lines, and fails as often as it is told.
struct Written {
  std::vector<std::string> lines;
  int flushes = 0;
  std::atomic<int> failures{0};
  std::string command;
};

class NotingSink final : public MonitorSink {
 public:
  explicit NotingSink(Written& written) : written_(written) {}
  std::string_view name() const override { return "noting"; }
  std::string place() const override { return "/there"; }
  std::string upload_command() const override { return written_.command; }
  void begin(int64_t samples, double) override { add_line(fmt::format("begin {}", samples)); }
  void add(const MonitorBatch& batch) override {
    for (const MonitorEvent& event : batch.events) {
      if (event.name == "Train/Samples/train_loss") {
        add_line(fmt::format("{} {}", batch.samples, event.value));
      }
    }
  }
  void end(double) override { add_line("end"); }
  void flush() override {
    if (written_.failures > 0) {
      --written_.failures;
      throw IoError("write /there: No space left on device");
    }
    ++written_.flushes;
    written_.lines.insert(written_.lines.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
  }

 private:
  void add_line(std::string line) { waiting_.push_back(std::move(line)); }
  Written& written_;
  std::vector<std::string> waiting_;
};

enum class End { kTold, kNotTold };

void run_steps(Written& written, RunReports& reports, std::chrono::nanoseconds patience,
               const std::vector<int>& steps = {3, 4},
               std::chrono::nanoseconds gather_for = std::chrono::seconds(0),
               End end = End::kTold) {
  std::vector<std::unique_ptr<MonitorSink>> sinks;
  sinks.push_back(std::make_unique<NotingSink>(written));
  CallQueue calls;
  testing::CpuStream cpu;
  const StepTimer timer(cpu.stream, calls);
  Monitors monitors(std::move(sinks), reports, timer,
                    {.step = {.global_batch = 4, .length = 16},
                     .patience = patience,
                     .gather_for = gather_for,
                     .writer = {.retry = std::chrono::milliseconds(1)}});
  for (const int step : steps) {
    monitors.after_step({.step = step, .seconds = 0.5, .metrics = {{"loss", 1.0 / step}}});
  }
  if (end == End::kTold) monitors.before_exit(RunEnd::kDone);
}

}  // namespace

TEST_CASE("events have DeepSpeed's names, and ours", "[train]") {
  const StepReport report{
      .step = 3,
      .seconds = 0.25,
      .metrics = {{"loss", 2.5}, {"lr", 0.125}, {"grad_norm", 1.5}, {"loss_scale", 512}}};
  std::vector<std::string> said;
  for (const MonitorEvent& event :
       events_of(report, {.global_batch = 8, .length = 16, .scales_loss = true}, nullptr)) {
    said.push_back(fmt::format("{} {}", event.name, event.value));
  }
  CHECK(said == std::vector<std::string>{
                    "Train/Samples/train_loss 2.5", "Train/Samples/lr 0.125",
                    "Train/Samples/grad_norm 1.5", "Train/Samples/loss_scale 512",
                    "Train/Samples/elapsed_time_ms_total 250", "Train/Samples/samples_per_s 32",
                    "Train/Samples/tokens_per_s 512"});
  CHECK(events_of(report, {.global_batch = 8}, nullptr).size() == 6);  // without a scale
  const StepTimes times{.forward = 0.001, .backward = 0.003, .reduction = 0.0005, .update = 0.002};
  const auto timed = events_of(report, {.global_batch = 8}, &times);
  REQUIRE(timed.size() == 11);
  CHECK(timed[6].name == "Train/Samples/elapsed_time_ms_backward_inner");
  CHECK(timed[6].value == Approx(2.5));
}

TEST_CASE("monitors that are switched on write where their sections say", "[train]") {
  const auto places = [](const std::string& sections) {
    std::vector<std::string> out;
    const MonitorOrigin origin{.run_dir = "/run", .config_text = "{}", .version = "1"};
    for (const auto& sink : monitor_sinks(parse_config("{" + sections + "}"), origin)) {
      out.push_back(fmt::format("{} {}", sink->name(), sink->place()));
    }
    return out;
  };
  using Places = std::vector<std::string>;
  CHECK(places(R"("csv_monitor": {"enabled": false}, "wandb": {"enabled": false})").empty());
  CHECK(places(R"("csv_monitor": {"enabled": true}, "wandb": {"enabled": true},
                  "comet": {"enabled": true})") ==
        Places{"wandb /run/wandb", "comet /run/comet",
               "csv_monitor /run/csv_monitor/DeepSpeedJobName"});
  CHECK(places(R"("csv_monitor": {"enabled": true, "output_path": "/far", "job_name": "job"})") ==
        Places{"csv_monitor /far/job"});
  const auto board = [&](const std::string& keys) {
    return places(R"("tensorboard": {"enabled": true)" + keys + "}").at(0);
  };
  CHECK_THAT(board(""), Catch::StartsWith("tensorboard /run/tensorboard/DeepSpeedJobName/"));
  CHECK_THAT(board(R"(, "output_path": "/far", "job_name": "job")"),
             Catch::StartsWith("tensorboard /far/job/"));
}

TEST_CASE("a monitor begins where training goes on, and ends with it", "[train]") {
  Written written;
  testing::HeardReports heard;
  run_steps(written, heard, std::chrono::seconds(20));
  CHECK(written.lines ==
        std::vector<std::string>{"begin 8", "12 0.3333333333333333", "16 0.25", "end"});
  CHECK(heard.take() == std::vector<std::string>{"noting writes to /there"});
}

TEST_CASE("at the end of a run it is said how what was written gets to its service", "[train]") {
  Written written;
  written.command = "note sync /there";
  testing::HeardReports heard;
  run_steps(written, heard, std::chrono::seconds(20));
  CHECK(heard.take() ==
        std::vector<std::string>{"noting writes to /there",
                                 "noting: `note sync /there` uploads what was written"});
  run_steps(written, heard, std::chrono::seconds(20), {3}, std::chrono::seconds(0), End::kNotTold);
  CHECK(heard.take() == std::vector<std::string>{"noting writes to /there"});  // by nobody
}

TEST_CASE("steps that follow each other quickly are written together, and none is lost",
          "[train]") {
  testing::HeardReports heard;
  Written each, together;
  run_steps(each, heard, std::chrono::seconds(20), {3, 4, 5, 6, 7});
  run_steps(together, heard, std::chrono::seconds(20), {3, 4, 5, 6, 7}, std::chrono::hours(1));
  CHECK(together.lines == each.lines);
  CHECK(each.flushes == 1 + 5 + 1);
  CHECK(together.flushes == 1 + 2 + 1);  // the first step, and at the end the others
}

TEST_CASE("a monitor that nobody tells of an end writes what it was given", "[train]") {
  testing::HeardReports heard;
  Written written;
  run_steps(written, heard, std::chrono::seconds(20), {3, 4, 5}, std::chrono::hours(1),
            End::kNotTold);
  CHECK(written.lines ==
        std::vector<std::string>{"begin 8", "12 0.3333333333333333", "16 0.25", "20 0.2"});
}

TEST_CASE("a monitor that fails for a while loses nothing", "[train]") {
  Written written;
  written.failures = 3;
  testing::HeardReports heard;
  run_steps(written, heard, std::chrono::seconds(20));
  CHECK(written.lines.size() == 4);
}

TEST_CASE("a monitor that cannot be written makes a line, and training ends as it would",
          "[train]") {
  Written written;
  written.failures = 1 << 30;
  testing::HeardReports heard;
  run_steps(written, heard, std::chrono::milliseconds(50));
  CHECK(written.lines.empty());
  const std::vector<std::string> lines = heard.take();
  CHECK(lines.back() ==
        "noting: the last 4 writes are lost: write /there: No space left on device");
}

}  // namespace ds
