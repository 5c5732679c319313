// What is said of a run: text, JSON there and back, Prometheus, folded logs, requests.
#include <cmath>

#include "core/status/error.h"
#include "launcher/control/control_request.h"
#include "launcher/report/log_fold.h"
#include "launcher/report/status_text.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

RunStatus running_status() {
  RunStatus status;
  status.run_dir = "/home/me/runs/kjv \"1\"";
  status.config = "kjv";
  status.phase = "running";
  status.launcher_pid = 77;
  status.generation = 2;
  status.restarts = 1;
  status.elapsed_s = 90;
  status.left_s = 30;
  status.last_step = {
      .step = 12,
      .total_steps = 16,
      .values = {{"loss", 2.5}, {"lr", 3e-4}, {"loss_scale", 1}, {"tokens_per_s", 1200}}};
  status.last_commit.emplace().set_tag("global_step10");
  status.last_commit->set_step(10);
  status.waits_for = "rank 1: no progress";
  status.ranks.push_back(
      {0, "a", 101, "alive", {12, 1, "train", {57, "data", 57, "all_gather", true}}, 0.5});
  status.ranks.push_back({1, "b\\", 102, "alive", {12, 0, "train", {}}, 0.25});
  status.ranks.push_back({2, "b\\", 0, "absent", {}});
  return status;
}

}  // namespace

TEST_CASE("status text says where a run and its ranks are", "[launcher]") {
  CHECK(status_text(running_status()) ==
        "run /home/me/runs/kjv \"1\" (kjv)\n"
        "running, generation 2, 1 restart, for 1m30s, pid 77\n"
        "step 12/16  loss 2.5000  lr 3.00e-04  1.2k tok/s  ETA 30s\n"
        "checkpoint global_step10\n"
        " rank  host       pid    heard  where\n"
        "    0  a          101     0.5s  at step 12.1 train, inside all_gather #57 of data\n"
        "    1  b\\         102     0.2s  at step 12.0 train\n"
        "    2  b\\           -        -  absent\n"
        "waiting: rank 1: no progress\n");
  RunStatus silent = running_status();
  silent.ranks[0].silent_s = 3.25;
  CHECK(verdict_text(silent) ==
        "rank 0 has not answered for 3.2 s; it was at step 12.1 train, inside all_gather #57 of "
        "data");
}

TEST_CASE("the GPUs of ranks are shown, and what is not known of them is not", "[launcher]") {
  RunStatus status = running_status();
  GpuState gpu{.index = 3, .uuid = "GPU-1a", .name = "NVIDIA H200"};
  gpu.figures = {.memory_total = int64_t{140} << 30,
                 .memory_used = int64_t{35} << 30,
                 .utilization = 97,
                 .power = 650500,
                 .last_xid = 94};
  status.ranks[0].gpu = gpu;
  status.ranks[1].gpu = GpuState{.index = 0, .problem = "GPU is lost"};
  CHECK_THAT(status_text(status),
             Catch::Contains("heard  GPU ") && Catch::Contains("  where\n") &&
                 Catch::Contains("0.5s  3: 35.0 GiB of 140 GiB, 97 % busy, Xid 94 (an error of "
                                 "its memory that was contained)  at step 12.1") &&
                 Catch::Contains("0.2s  0: GPU is lost   "));
  const RunStatus read = parse_status(status_json(status));
  CHECK(status_json(read) == status_json(status));
  CHECK(read.ranks.at(0).gpu->figures.power == 650500);
  CHECK(read.ranks.at(0).gpu->uuid == "GPU-1a");
  CHECK_FALSE(read.ranks.at(0).gpu->figures.temperature);
  CHECK(read.ranks.at(1).gpu->problem == "GPU is lost");
  CHECK_FALSE(read.ranks.at(2).gpu);
  const std::string exposed = status_prometheus(status);
  CHECK_THAT(exposed, Catch::Contains("\ndslaunch_rank_gpu_memory_used_bytes{run=\"kjv \\\"1\\\"\","
                                      "rank=\"0\",host=\"a\"} 37580963840\n"));
  CHECK_THAT(exposed, Catch::Contains("host=\"a\"} 0.97\n") && Catch::Contains("} 650.5\n"));
  CHECK_THAT(exposed, !Catch::Contains("gpu_temperature"));
  CHECK_THAT(status_prometheus(running_status()), !Catch::Contains("gpu"));
}

TEST_CASE("status JSON is read back as it was written", "[launcher]") {
  const RunStatus status = running_status();
  const std::string json = status_json(status);
  CHECK(json.find('\n') == std::string::npos);
  CHECK(status_json(parse_status(json)) == json);
  CHECK(status_text(parse_status(json)) == status_text(status));
  RunStatus broken = status;
  broken.last_step->values.set("loss", std::nan(""));
  CHECK(std::isnan(parse_status(status_json(broken)).last_step->values.at("loss")));
  CHECK_THROWS_AS(parse_status("{"), DataError);
  CHECK_THROWS_AS(parse_status("[]"), DataError);
  CHECK_THROWS_AS(parse_status(R"({"generation": "two"})"), DataError);
}

TEST_CASE("what is not known of a run is null, absent or a dash, and never 0", "[launcher]") {
  RunStatus status;
  status.run_dir = "r";
  status.phase = "killed";
  status.last_step = {.step = 12, .values = {{"loss", 2.5}}};
  status.ranks = {{0, "a", 101, "alive", {0, 0, "load", {}}, 0.5}, {1, "a", 0, "absent", {}}};
  const std::string json = status_json(status);
  for (const char* const key :
       {"generation", "restarts", "elapsed_s", "left_s", "total_steps", "lr", "loss_scale",
        "tokens_per_s", "samples", "bytes_peak", "epoch", "time"}) {
    CAPTURE(key);
    CHECK_THAT(json, Catch::Contains(fmt::format("\"{}\": null", key)));
  }
  // A rank that loads does not know yet from which step it goes on.
  CHECK_THAT(
      json,
      Catch::Contains(
          R"("pid": 101, "state": "alive", "step": null, )"
          R"("micro_step": null, "micro_step_total": null, "phase": "load", "silent_s": 0.5)"));
  CHECK_THAT(json,
             Catch::Contains(
                 R"("pid": null, "state": "absent", "step": null, )"
                 R"("micro_step": null, "micro_step_total": null, "phase": "", "silent_s": null)"));
  CHECK(status_json(parse_status(json)) == json);
  CHECK(status_text(status) ==
        "run r\nkilled\nstep 12  loss 2.5000\n"
        " rank  host       pid    heard  where\n"
        "    0  a          101     0.5s  load\n"
        "    1  a            -        -  absent\n");
  const std::string exposed = status_prometheus(status);
  for (const char* const gauge :
       {"dslaunch_learning_rate", "dslaunch_loss_scale", "dslaunch_tokens_per_second",
        "dslaunch_samples", "dslaunch_steps_planned", "dslaunch_epoch", "dslaunch_generation",
        "dslaunch_restarts_total", "dslaunch_elapsed_seconds", "dslaunch_rank_step{"}) {
    CAPTURE(gauge);
    CHECK_THAT(exposed, !Catch::Contains(gauge));
  }
  CHECK_THAT(exposed, Catch::Contains("dslaunch_step{run=\"r\"} 12\n"));
}

TEST_CASE("a report says all of the last step, an older one with the line of the metrics",
          "[launcher]") {
  const StepMetrics step{
      .step = 12, .total_steps = 12, .values = {{"loss", 2.5}, {"lr", 3e-4}, {"samples", 96}}};
  RunStatus status;
  add_report(fmt::format(R"({{"exit_code": 0, "steps": 12, "last_step": {}}})", step_json(step)),
             status);
  REQUIRE(status.last_step);
  CHECK(step_json(*status.last_step) == step_json(step));
  add_metrics_line(R"({"step": 12, "loss": 9})", status);
  CHECK(status.last_step->values.at("loss") == 2.5);

  const auto older = [](std::string_view line) {
    RunStatus out;
    add_report(R"({"exit_code": 0, "steps": 12, "loss": 2.5})", out);
    add_metrics_line(line, out);
    return *out.last_step;
  };
  CHECK(older(R"({"step": 12, "loss": 2.5, "lr": 0.5, "samples": 96})").values.at("lr") == 0.5);
  CHECK_FALSE(older(R"({"step": 11, "loss": 2.5, "lr": 0.5})").values.has("lr"));
  CHECK_FALSE(older(R"({"step": 12, "loss")").values.has("lr"));
}

TEST_CASE("report.json says how a run ended", "[launcher]") {
  RunStatus status;
  add_report(R"({"exit_code": 75, "reason": "Ctrl-C", "steps": 12, "seconds": 9.5, "loss": 2.5,
                 "last_committed": {"tag": "global_step12", "step": 12}, "restarts": 1,
                     "epoch": 2})",
             status);
  CHECK(status.phase == "stopped");
  CHECK_FALSE(status.live());
  CHECK(status.last_commit->tag() == "global_step12");
  CHECK_THAT(status_text(status),
             Catch::Contains("stopped with code 75, generation 2, 1 restart, after 9.5s"));
  CHECK_THROWS_AS(add_report("{}", status), DataError);
}

TEST_CASE("Prometheus text has each family once and no label that grows", "[launcher]") {
  const std::string text = status_prometheus(running_status());
  CHECK_THAT(text, Catch::Contains("# HELP dslaunch_step Optimizer steps done.\n"
                                   "# TYPE dslaunch_step gauge\n"
                                   "dslaunch_step{run=\"kjv \\\"1\\\"\"} 12\n"));
  CHECK_THAT(text, Catch::Contains("# TYPE dslaunch_restarts_total counter\n"));
  CHECK_THAT(text, Catch::Contains(
                       "# TYPE dslaunch_rank_step gauge\n"
                       "dslaunch_rank_step{run=\"kjv \\\"1\\\"\",rank=\"0\",host=\"a\"} 12\n"
                       "dslaunch_rank_step{run=\"kjv \\\"1\\\"\",rank=\"1\",host=\"b\\\\\"} 12\n"));
  RunStatus broken = running_status();
  broken.last_step->values.set("loss", std::nan(""));
  CHECK_THAT(status_prometheus(broken), Catch::Contains("} NaN\n"));
}

TEST_CASE("equal lines of several ranks are folded", "[launcher]") {
  CHECK(rank_ranges({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8");
  CHECK(fold_logs(
            {{0,
              {"10:00:00.001 info: load", "detail", "10:00:00.005 info: step",
               "10:00:00.006 info: step"}},
             {1,
              {"10:00:00.002 info: load", "10:00:00.003 warn: odd", "10:00:00.007 info: step"}}}) ==
        "[0-1] 10:00:00.001 info: load\n"
        "[0] detail\n"
        "[1] 10:00:00.003 warn: odd\n"
        "[0-1] 10:00:00.005 info: step\n"
        "[0] 10:00:00.006 info: step\n");
  CHECK(fold_logs({}).empty());
}

TEST_CASE("requests name a verb", "[launcher]") {
  CHECK(parse_control_request(control_request(ControlVerb::kResume)).verb == ControlVerb::kResume);
  const ControlRequest trace = parse_control_request(
      control_request({.verb = ControlVerb::kTrace, .steps = 7, .ranks = {0, 2}}));
  CHECK(trace.verb == ControlVerb::kTrace);
  CHECK(trace.steps == 7);
  CHECK(trace.ranks == std::vector<int>{0, 2});
  CHECK(parse_control_request(R"({"verb": "trace", "steps": 1})").ranks.empty());
  CHECK_THROWS_AS(parse_control_request(R"({"verb": "trace"})"), DataError);
  CHECK_THROWS_AS(parse_control_request(R"({"verb": "trace", "steps": "3"})"), DataError);
  CHECK_THROWS_AS(parse_control_request(R"({"verb": "trace", "steps": 3, "ranks": 1})"), DataError);
  CHECK_THROWS_AS(parse_control_request(""), DataError);
  CHECK_THROWS_AS(parse_control_request(R"({"verb": 3})"), DataError);
  CHECK_THROWS_AS(parse_control_request(R"({"verb": "dance"})"), UsageError);
  CHECK_THROWS_AS(parse_control_request(std::string(50000, '[')), DataError);
}

}  // namespace ds
