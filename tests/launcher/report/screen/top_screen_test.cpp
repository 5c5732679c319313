// What `dslaunch top` shows, at every size: never wider or higher than the terminal.
#include "launcher/report/screen/top_screen.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "cli/text/terminal_text.h"
#include "launcher/report/screen/bars.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

RunStatus running(int ranks) {
  RunStatus status;
  status.run_dir = "/home/me/runs/20261127-101500";
  status.config = "kjv";
  status.phase = "running";
  status.launcher_pid = 77;
  status.generation = 1;
  status.elapsed_s = 90;
  status.left_s = 30;
  status.last_step = {
      .step = 12,
      .total_steps = 16,
      .values = {{"loss", 2.5}, {"lr", 3e-4}, {"grad_norm", 1.5}, {"tokens_per_s", 1200}}};
  for (int rank = 0; rank < ranks; ++rank) {
    status.ranks.push_back({rank,
                            rank % 2 == 0 ? "node-a" : "node-b",
                            100 + rank,
                            "alive",
                            {12, 1, "train", {57, "data", 57, "all_gather", true}},
                            0.5});
  }
  return status;
}

MetricCurves history(int steps) {
  MetricCurves out;
  for (int step = 1; step <= steps; ++step) {
    out["loss"].push_back({static_cast<double>(step), 4 - 2.0 * step / steps});
    out["tokens_per_s"].push_back({static_cast<double>(step), 1000.0 + 10 * (step % 3)});
  }
  return out;
}

ScreenLook look(size_t columns, size_t rows) {
  return {.columns = columns, .rows = rows, .utf8 = true};
}

std::string text_of(const std::vector<ScreenLine>& lines) {
  std::string out;
  for (const ScreenLine& line : lines) {
    out += line.text();
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  return out;
}

void require_within(const std::vector<ScreenLine>& lines, const ScreenLook& screen) {
  CAPTURE(screen.columns, screen.rows, text_of(lines));
  CHECK(lines.size() <= screen.rows);
  for (const ScreenLine& line : lines) {
    CHECK(columns_of(line.text()) == line.columns());
    CHECK(line.columns() <= screen.columns);
  }
}

GpuState gpu_of(int index) {
  GpuState gpu{.index = index, .uuid = "GPU-1a", .name = "NVIDIA H200"};
  gpu.figures = {.memory_total = int64_t{140} << 30,
                 .memory_used = int64_t{35} << 30,
                 .utilization = 97,
                 .temperature = 61};
  return gpu;
}

}  // namespace

TEST_CASE("the screen of a run at 80 columns", "[launcher]") {
  CHECK(text_of(top_screen(running(2), history(16), look(80, 24))) ==
        "run /home/me/runs/20261127-101500 (kjv)\n"
        "running, generation 1, for 1m30s, pid 77\n"
        "step 12/16  ███████████████████████████████████████▊░░░░░░░░░░░░░  75 %  ETA 30s\n"
        "loss 2.5000  lr 3.00e-04  norm 1.5  1.2k tok/s\n"
        "loss   ██▇▇▆▆▅▅▄▄▃▃▂▂▁▁  2 to 3.875, steps 1-16\n"
        "tok/s  ▅█▁▅█▁▅█▁▅█▁▅█▁▅  1.0k to 1.0k, steps 1-16\n"
        "\n"
        "rank  host    steps                 doing\n"
        "   0  node-a  ██████████▌░░░ 12/16  train, inside all_gather #57 of data, micro…\n"
        "   1  node-b  ██████████▌░░░ 12/16  train, inside all_gather #57 of data, micro…\n");
}

TEST_CASE("without UTF-8 the screen is ASCII", "[launcher]") {
  ScreenLook ascii = look(40, 24);
  ascii.utf8 = false;
  const std::string text = text_of(top_screen(running(1), history(16), ascii));
  CHECK(text ==
        "run /home/me/runs/20261127-101500 (kjv)\n"
        "running, generation 1, for 1m30s, pid 77\n"
        "step 12/16  #########----  75 %  ETA 30s\n"
        "loss 2.5000  lr 3.00e-04  norm 1.5\n"
        "loss   ##**++==-,,..__  2 to 3.75\n"
        "tok/s  #_=#_=#_=#_=#_=  1.0k to 1.0k\n"
        "\n"
        "rank  host    steps       doing\n"
        "   0  node-a  ###- 12/16  train, insi...\n");
  CHECK(std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}

TEST_CASE("the screen is never wider or higher than the terminal", "[launcher]") {
  for (const int ranks : {0, 1, 2, 8, 64}) {
    for (const bool gpus : {false, true}) {
      RunStatus status = running(ranks);
      for (RankStatus& rank : status.ranks) {
        if (gpus) rank.gpu = gpu_of(rank.rank);
      }
      status.reason = std::string(300, 'r');
      status.waits_for = "rank 1: no progress for a time that is much longer than is usual here";
      status.last_commit.emplace().set_tag("global_step10");
      for (const size_t columns : {1, 2, 5, 17, 40, 80, 120, 200}) {
        for (const size_t rows : {1, 2, 5, 12, 24, 50}) {
          const ScreenLook screen = look(columns, rows);
          require_within(top_screen(status, history(3000), screen), screen);
          require_within(top_screen(status, {}, screen), screen);
        }
      }
    }
  }
}

TEST_CASE("columns of the ranks line up", "[launcher]") {
  RunStatus status = running(8);
  status.ranks[3].host = "\xC3\xA9\xE6\xBC\xA2";  // of one column and of two
  status.ranks[5].pid = 0;
  for (const size_t columns : {80, 120, 200}) {
    const std::vector<ScreenLine> lines = top_screen(status, history(16), look(columns, 24));
    std::vector<size_t> begins;
    for (const ScreenLine& line : lines) {
      const std::string text = line.text();
      const size_t at = std::min(text.find("train, "), text.find("doing"));
      if (at != std::string::npos) begins.push_back(columns_of(text.substr(0, at)));
    }
    CAPTURE(columns, text_of(lines));
    REQUIRE(begins.size() == 9);
    CHECK(begins == std::vector<size_t>(9, begins[0]));
  }
}

TEST_CASE("wider screens show more columns", "[launcher]") {
  const std::string narrow = text_of(top_screen(running(2), {}, look(40, 24)));
  CHECK_THAT(narrow, Catch::Contains("steps") && !Catch::Contains("heard"));
  const std::string wide = text_of(top_screen(running(2), {}, look(120, 24)));
  CHECK_THAT(wide, Catch::Contains("heard") && Catch::Contains("pid") && Catch::Contains("0.5s"));
  RunStatus status = running(2);
  status.ranks[0].gpu = gpu_of(3);
  status.ranks[1].gpu = GpuState{.index = 1, .problem = "GPU is lost"};
  const std::string gpus = text_of(top_screen(status, {}, look(120, 24)));
  CHECK_THAT(gpus, Catch::Contains("GPU memory") && Catch::Contains("35.0 GiB") &&
                       Catch::Contains("97 %") &&
                       Catch::Contains("GPU is lost; at step 12.1 train"));
}

TEST_CASE("ranks for which there is no room are counted, those that are not well stay",
          "[launcher]") {
  RunStatus status = running(64);
  status.ranks[40].state = "absent";
  status.ranks[41].silent_s = 9;
  status.ranks[50].gpu = gpu_of(2);
  status.ranks[50].gpu->figures.last_xid = 79;
  const std::vector<ScreenLine> lines = top_screen(status, history(16), look(80, 24));
  const std::string text = text_of(lines);
  CAPTURE(text);
  CHECK(lines.size() == 24);
  CHECK_THAT(text, Catch::Contains("\n   0  ") && Catch::Contains("\n  40  ") &&
                       Catch::Contains("\n  41  ") && Catch::Contains("\n  50  ") &&
                       !Catch::Contains("\n  63  "));
  CHECK_THAT(text, Catch::Contains("and 51 ranks not shown: 51 alive\n"));
}

TEST_CASE("a run before its first step, and one that is over, show what is known", "[launcher]") {
  RunStatus status = running(2);
  status.last_step.reset();
  status.left_s.reset();
  status.phase = "starting";
  for (RankStatus& rank : status.ranks) rank = {rank.rank, "", 0, "absent", {}};
  CHECK(text_of(top_screen(status, {}, look(120, 24))) ==
        "run /home/me/runs/20261127-101500 (kjv)\n"
        "starting, generation 1, for 1m30s, pid 77\n"
        "step -\n"
        "loss   -\n"
        "tok/s  -\n"
        "\n"
        "rank  host  pid  heard  steps  doing\n"
        "   0  -       -      -  -      absent\n"
        "   1  -       -      -  -      absent\n");
  status.ranks.clear();
  status.phase = "failed";
  status.launcher_pid = 0;
  status.exit_code = 76;
  status.reason = "rank 1 was killed by signal 11";
  CHECK(text_of(top_screen(status, {}, look(80, 24))) ==
        "run /home/me/runs/20261127-101500 (kjv)\n"
        "failed with code 76, generation 1, after 1m30s\n"
        "reason: rank 1 was killed by signal 11\n"
        "step -\n"
        "loss   -\n"
        "tok/s  -\n");
}

TEST_CASE("what is not known of a rank is a dash and has no bar", "[launcher]") {
  RunStatus status = running(2);
  status.last_step->total_steps = 0;
  status.left_s.reset();
  status.ranks[1].progress = {0, 0, "load", {}};
  status.ranks[1].silent_s.reset();
  status.ranks[1].pid = 0;
  const std::string text = text_of(top_screen(status, {}, look(120, 24)));
  CHECK_THAT(text, Catch::Contains("\nstep 12\n"));
  CHECK_THAT(text, Catch::Contains("\n   1  node-b    -       -  -      load\n"));
  CHECK_THAT(text, !Catch::Contains("█") && !Catch::Contains("░"));
}

TEST_CASE("names that would steer the terminal are shown, and stay on their line", "[launcher]") {
  RunStatus status = running(2);
  const std::string hostile = "\033[2J\033]0;x\a\r\n\t\xC2\x9B";
  status.run_dir = hostile;
  status.config = hostile;
  status.reason = hostile;
  status.waits_for = hostile;
  status.phase = hostile;
  status.last_commit.emplace().set_tag(hostile);
  for (RankStatus& rank : status.ranks) {
    rank.host = rank.progress.phase = rank.progress.collective.op = hostile;
  }
  status.ranks[1].state = hostile;
  for (const size_t columns : {40, 200}) {
    ScreenLook screen = look(columns, 50);
    screen.colour = true;
    const std::vector<ScreenLine> lines = top_screen(status, history(16), screen);
    require_within(lines, screen);
    for (const ScreenLine& line : lines) {
      CHECK(terminal_text(line.text()) == line.text());
      CHECK(line.text().find_first_of("\n\t") == std::string::npos);
    }
  }
  CHECK_THAT(text_of(top_screen(status, {}, look(200, 50))), Catch::Contains("\\u001b[2J"));
}

TEST_CASE("inks are in what is painted alone", "[launcher]") {
  ScreenLine line("plain ");
  line.add("bad", Ink::kBad);
  CHECK(line.text() == "plain bad");
  CHECK(line.columns() == 9);
  CHECK(line.painted() == "plain \033[38;5;160mbad\033[0m");
}

TEST_CASE("the environment says what a terminal can show", "[launcher]") {
  CHECK_FALSE(look_for({}, false).utf8);
  CHECK(look_for({{"LANG", "de_DE.UTF-8"}}, false).utf8);
  CHECK(look_for({{"LANG", "C"}, {"LC_CTYPE", "C.utf8"}}, false).utf8);
  CHECK_FALSE(look_for({{"LC_ALL", "POSIX"}, {"LANG", "de_DE.UTF-8"}}, false).utf8);
  CHECK_FALSE(look_for({}, false).colour);
  CHECK_FALSE(look_for({{"TERM", "dumb"}}, false).colour);
  CHECK(look_for({{"TERM", "xterm"}}, false).colour);
  CHECK_FALSE(look_for({{"TERM", "xterm"}}, true).colour);
}

TEST_CASE("a bar is full only when all is done", "[launcher]") {
  const auto bar = [](double share, size_t columns, bool utf8) {
    ScreenLook screen;
    screen.utf8 = utf8;
    ScreenLine line;
    add_bar(line, share, columns, screen);
    CHECK(line.columns() == columns);
    return line.text();
  };
  CHECK(bar(0, 4, true) == "░░░░");
  CHECK(bar(0.5, 4, true) == "██░░");
  CHECK(bar(0.999, 4, true) == "███▉");
  CHECK(bar(1, 4, true) == "████");
  CHECK(bar(7, 2, true) == "██");
  CHECK(bar(-1, 2, true) == "░░");
  CHECK(bar(0.999, 4, false) == "###-");
  CHECK(bar(0.5, 0, true).empty());
}

TEST_CASE("a sparkline fills its room with the newest steps", "[launcher]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const ScreenLook screen = look(80, 24);
  CHECK(sparkline({}, 8, screen).heights.empty());
  CHECK(sparkline({{1, nan}}, 8, screen).heights.empty());
  CHECK(sparkline({{1, 2}}, 0, screen).heights.empty());
  CHECK(sparkline({{1, 2}, {2, 2}}, 8, screen).heights == "▅▅");
  const Sparkline gap = sparkline({{1, 1}, {2, nan}, {3, 8}}, 8, screen);
  CHECK(gap.heights == "▁ █");
  CHECK(gap.low == 1);
  CHECK(gap.high == 8);
  const std::vector<PlotPoint> curve = history(100).at("loss");
  for (const size_t columns : {1, 7, 60, 99, 100}) {
    const Sparkline shown = sparkline(curve, columns, screen);
    CHECK(columns_of(shown.heights) == columns);
    const size_t points = 100 / columns * columns;
    CHECK(shown.first_step == static_cast<double>(101 - points));
  }
}

TEST_CASE("words are broken between words, and cut at the end", "[launcher]") {
  const ScreenLook screen = look(10, 24);
  using Lines = std::vector<std::string>;
  CHECK(wrapped("one two three four", 9, screen) == Lines{"one two", "three four"});
  CHECK(wrapped("one two three four", 1, screen) == Lines{"one two t\u2026"});
  CHECK(wrapped("0123456789abc", 9, screen) == Lines{"0123456789", "abc"});
  CHECK(wrapped("0123456789 ab", 9, screen) == Lines{"0123456789", "ab"});
  CHECK(wrapped("", 9, screen) == Lines{""});
  CHECK(without_beginning("/home/me/runs/x", 7, screen) == "\u2026runs/x");
  CHECK(without_beginning("abc", 3, screen) == "abc");
  CHECK(without_end("\xE6\xBC\xA2\xE6\xBC\xA2\xE6\xBC\xA2", 4, screen) == "\xE6\xBC\xA2\u2026");
}

}  // namespace ds
