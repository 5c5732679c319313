// What ranks record of their steps: clocks that agree, events that nest, and nothing beyond what
// was asked for.
#include <rapidjson/document.h>

#include <chrono>
#include <map>
#include <sstream>

#include "comm/traced_comm.h"
#include "core/device/across.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/ranks.h"
#include "tests/train/heard_reports.h"
#include "tests/train/runs/small_engine.h"
#include "train/plan/dry_run.h"
#include "train/step/swap.h"
#include "train/trace/trace_recorder.h"

namespace ds {
namespace {

using namespace testing;

struct TraceEvent {
  std::string name, kind;
  int rank = 0, track = 0;
  int64_t begin = 0, end = 0;  // nanoseconds
  int64_t wire_bytes = 0, bytes = 0;
};

struct ReadTrace {
  int64_t rank = -1, first_step = 0, steps = 0, left_out = 0, offset = 0;
  std::vector<std::string> tracks;  // by number, from 1 on
  std::vector<TraceEvent> events;
};

ReadTrace read(const std::string& text) {
  ReadTrace out;
  std::istringstream lines(text);
  bool ended = false;
  for (std::string line; std::getline(lines, line);) {
    REQUIRE_FALSE(ended);
    rapidjson::Document json;
    json.Parse(line.c_str());
    INFO(line);
    REQUIRE(json.IsObject());
    if (out.rank < 0) {
      out.rank = json["rank"].GetInt64();
      out.first_step = json["first_step"].GetInt64();
      out.steps = json["steps"].GetInt64();
      out.left_out = json["left_out"].GetInt64();
      out.offset = json["clock_offset_ns"].GetInt64();
      for (const auto& track : json["tracks"].GetArray())
        out.tracks.emplace_back(track.GetString());
    } else if (json.HasMember("events")) {
      CHECK(json["events"].GetInt64() == narrow<int64_t>(out.events.size()));
      ended = true;
    } else {
      REQUIRE(std::string(json["ph"].GetString()) == "X");
      const auto ns = [&](const char* key) { return std::llround(json[key].GetDouble() * 1000); };
      out.events.push_back({.name = json["name"].GetString(),
                            .kind = json["cat"].GetString(),
                            .rank = json["pid"].GetInt(),
                            .track = json["tid"].GetInt(),
                            .begin = ns("ts"),
                            .end = ns("ts") + ns("dur")});
      if (json["args"].HasMember("wire_bytes")) {
        out.events.back().wire_bytes = json["args"]["wire_bytes"].GetInt64();
      }
      if (out.events.back().kind == "beside") {
        out.events.back().bytes = json["args"]["bytes"].GetInt64();
      }
    }
  }
  REQUIRE(ended);
  return out;
}

// If two slices of a track have time in common, one is within the other.
void check_nesting(std::vector<TraceEvent> events) {
  std::ranges::stable_sort(events, [](const TraceEvent& a, const TraceEvent& b) {
    return std::tuple(a.track, a.begin, -a.end) < std::tuple(b.track, b.begin, -b.end);
  });
  std::vector<TraceEvent> open;
  int track = 0;
  for (const TraceEvent& event : events) {
    CHECK(event.end >= event.begin);
    if (std::exchange(track, event.track) != event.track) open.clear();
    while (!open.empty() && open.back().end <= event.begin) open.pop_back();
    INFO(event.name << " from " << event.begin << " to " << event.end);
    if (!open.empty()) CHECK(event.end <= open.back().end);
    open.push_back(event);
  }
}

int64_t count_of(const ReadTrace& trace, std::string_view kind) {
  return std::ranges::count(trace.events, kind, &TraceEvent::kind);
}

struct Recorded {
  std::vector<std::string> texts;  // by rank
  std::vector<int64_t> wire_bytes;
};

constexpr int kRanks = 2;
const Setting kPlain{.ranks = kRanks, .stage = 3, .micro_steps = 2};

bool works_beside(const Setting& setting) {
  return setting.update_ahead || (setting.zenflow && setting.zenflow->overlaps);
}

// Trains some steps; the orders are carried out at the edges after so many.
Recorded record(const std::map<int64_t, TraceOrder>& orders, int64_t steps,
                int64_t most_events = TraceRecorder::kMostEvents, const Setting& setting = kPlain) {
  const EngineOptions options = options_of(setting);
  const RunPlan plan = dry_run(options, {.data = kRanks}, {});
  const TemporaryDirectory swap;
  Recorded out;
  out.texts.resize(kRanks);
  out.wire_bytes.resize(kRanks);
  test::run_ranks(kRanks, [&](Communicator& comm) {
    CallQueue calls;
    OpLog ops;
    BackgroundLog beside;
    CommVolume volume;
    Connections connections =
        Connections::over(comm, {.data = kRanks}, {.volume = &volume, .times = &calls});
    Workspace workspace({.device = Device::cpu(),
                         .updater_threads = works_beside(setting) ? 1 : 0,
                         .trace = &ops,
                         .beside = &beside},
                        connections.peers());
    ops.follow(workspace.stream());
    RankResources resources = workspace.resources();
    const auto opener = [&](const char* of) {
      return swap_opener({.nvme_path = swap.path().string(),
                          .of = of,
                          .owner = {.job = "test", .rank = comm.rank(), .world = comm.size()},
                          .beside = &beside});
    };
    resources.open_weight_swap = opener("parameters");
    resources.open_state_swap = opener("state");
    Engine engine(options, resources, plan.of_rank(comm.rank()).step);
    engine.initialize();
    CountingSource source(options, comm.rank(), kRanks);
    HeardReports heard;
    PhaseWatch phases(heard);
    StepObservers observers;
    StepTimer& timer = observers.add(std::make_unique<StepTimer>(workspace.stream(), calls));
    std::string& text = out.texts[to_size(comm.rank())];
    TraceRecorder& recorder = observers.add(std::make_unique<TraceRecorder>(
        engine.host(), timer, ops, phases,
        TraceRecorder::Options{.rank = comm.rank(),
                               .most_events = most_events,
                               .beside = &beside,
                               .send = [&](std::string piece, bool) { text += piece; }}));
    for (int64_t step = 0; step < steps; ++step) {
      if (const auto order = orders.find(step); order != orders.end()) {
        recorder.execute(order->second);
        volume.reset();
      }
      engine.begin_step(source, 0, &observers);
      const StepResult result = engine.next_result(Wait::kYes).value();
      if (text.empty()) out.wire_bytes[to_size(comm.rank())] = volume.wire_bytes();
      phases.report_progress({.step = result.step, .micro_step = 0, .phase = "save"});
      phases.report_progress({.step = result.step, .micro_step = 0, .phase = "train"});
      observers.after_step({.step = result.step, .seconds = 0, .metrics = result.metrics});
    }
    observers.before_exit(RunEnd::kDone);
  });
  return out;
}

// Bytes over each link in the steps of a trace.
std::array<double, kLinks> link_bytes(const ReadTrace& trace) {
  std::array<double, kLinks> bytes{};
  for (const TraceEvent& event : trace.events) {
    for (int link = 0; link < kLinks; ++link) {
      const std::string_view name = name_of(static_cast<Link>(link));
      if (event.kind == "beside" && event.name.starts_with(fmt::format("{} ", name))) {
        nth(bytes, link) += static_cast<double>(event.bytes);
      }
    }
  }
  return bytes;
}

// Those of the kind whose name begins so, each within a step.
int64_t named_within_steps(const ReadTrace& trace, std::string_view name) {
  return std::ranges::count_if(trace.events, [&](const TraceEvent& event) {
    if (event.kind != "beside" || !event.name.starts_with(name)) return false;
    return std::ranges::any_of(trace.events, [&](const TraceEvent& step) {
      return step.kind == "step" && step.begin <= event.begin && event.end <= step.end;
    });
  });
}

}  // namespace

TEST_CASE("an offset of clocks is that of the quickest reading", "[train]") {
  CHECK(clock_offset({}) == 0);
  const std::vector<ClockReading> readings{{.sent = 0, .theirs = 5'100, .received = 1'000},
                                           {.sent = 2'000, .theirs = 7'010, .received = 2'020},
                                           {.sent = 3'000, .theirs = 8'900, .received = 4'000}};
  CHECK(clock_offset(readings) == 5'000);
}

TEST_CASE("clocks that a late answer cannot tell apart are one clock", "[train]") {
  // One steady clock, read by two processes of a busy host: the answer lay about for 19 ms.
  CHECK(clock_offset(std::vector<ClockReading>{
            {.sent = 0, .theirs = 1'000'000, .received = 20'000'000}}) == 0);
  CHECK(clock_offset(std::vector<ClockReading>{{.sent = 0, .theirs = 20, .received = 20}}) == 0);
  CHECK(clock_offset(std::vector<ClockReading>{{.sent = 0, .theirs = 21, .received = 20}}) == 11);
  CHECK(clock_offset(std::vector<ClockReading>{{.sent = 0, .theirs = -1, .received = 20}}) == -11);
}

TEST_CASE("ranks with clocks of their own come to one", "[train]") {
  constexpr int kRanks = 3;
  std::vector<SharedClock> clocks(kRanks);
  test::run_ranks(kRanks, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = kRanks});
    const int64_t skew = comm.rank() * int64_t{3'600'000'000'000} - 7;
    clocks[to_size(comm.rank())] = share_clock(connections.peers().host, [&] {
      return std::chrono::steady_clock::now().time_since_epoch().count() + skew;
    });
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    const SharedClock& clock = clocks[to_size(rank)];
    CHECK(clock.begin_ns == clocks[0].begin_ns);
    // Half of what a message there and back takes, on a busy machine.
    CHECK(std::abs(clock.offset_ns - rank * int64_t{3'600'000'000'000}) < 50'000'000);
  }
}

TEST_CASE("a trace has so many steps of each rank, and its events nest", "[train]") {
  const Recorded recorded = record({{1, {.steps = 2, .ranks = {0, 1}}}}, 6);
  std::vector<ReadTrace> traces;
  for (const std::string& text : recorded.texts) traces.push_back(read(text));
  for (int rank = 0; rank < 2; ++rank) {
    const ReadTrace& trace = traces[to_size(rank)];
    CHECK(trace.rank == rank);
    CHECK(trace.first_step == 2);
    CHECK(trace.steps == 2);
    CHECK(trace.left_out == 0);
    CHECK(count_of(trace, "step") == 2);
    CHECK(count_of(trace, "micro-step") == 4);
    CHECK(count_of(trace, "module") > 40);
    CHECK(count_of(trace, "kernel") > count_of(trace, "module"));
    CHECK(count_of(trace, "copy") == 4);
    CHECK(count_of(trace, "phase") == 2);
    check_nesting(trace.events);
    int64_t bytes = 0;
    for (const TraceEvent& event : trace.events) bytes += event.wire_bytes;
    CHECK(bytes == recorded.wire_bytes[to_size(rank)]);
  }
  // The clocks agree: no rank leaves a collective before the other has come to it.
  std::vector<std::vector<TraceEvent>> calls(2);
  for (const int rank : {0, 1}) {
    std::ranges::copy_if(traces[to_size(rank)].events, std::back_inserter(calls[to_size(rank)]),
                         [](const TraceEvent& event) { return event.kind == "collective"; });
  }
  REQUIRE(calls[0].size() == calls[1].size());
  REQUIRE_FALSE(calls[0].empty());
  const int64_t clock_error = 20'000'000;
  for (size_t i = 0; i < calls[0].size(); ++i) {
    CHECK(calls[0][i].name == calls[1][i].name);
    CHECK(calls[0][i].end > calls[1][i].begin - clock_error);
    CHECK(calls[1][i].end > calls[0][i].begin - clock_error);
  }
}

TEST_CASE("a trace has what is done beside: its bytes are those of the plan", "[train]") {
  constexpr int64_t kSteps = 2;
  for (const Tier state : {Tier::kHost, Tier::kNvme}) {
    for (const Tier params : {Tier::kDevice, Tier::kHost, Tier::kNvme}) {
      Setting setting = kPlain;
      setting.state = state;
      setting.params = params;
      setting.sub_group_numel = 640;
      setting.rolling = {
          .buffers = 3, .pipeline_read = true, .pipeline_write = true, .pinning = Pinning::kNone};
      CAPTURE(name_of(state), name_of(params));
      const Recorded recorded =
          record({{1, {.steps = kSteps, .ranks = {0}}}}, 4, TraceRecorder::kMostEvents, setting);
      const ReadTrace trace = read(recorded.texts[0]);
      check_nesting(trace.events);
      const RunPlan plan = dry_run(options_of(setting), {.data = kRanks}, {});
      const auto traced = link_bytes(trace);
      for (int link = 0; link < kLinks; ++link) {
        CAPTURE(name_of(static_cast<Link>(link)));
        CHECK(nth(traced, link) == kSteps * nth(plan.of_rank(0).link_bytes, link));
      }
      CHECK(named_within_steps(trace, "update part ") >= kSteps);
      const bool swaps = state == Tier::kNvme || params == Tier::kNvme;
      CHECK((std::ranges::count(trace.tracks, "swap files") == 1) == swaps);
      CHECK(std::ranges::count(trace.tracks, "updates by the host") == 1);
      CHECK(std::ranges::count(trace.tracks, "copies") == 1);
    }
  }
}

TEST_CASE("a trace has what ZenFlow moves, as planned, and the rest's update once an interval",
          "[train]") {
  Setting setting = kPlain;
  setting.stage = 2;
  setting.state = Tier::kHost;
  int64_t parts = 0;  // of which there is a rest
  for (const bool overlaps : {false, true}) {
    CAPTURE(overlaps);
    setting.zenflow = {.topk_ratio = 0.25, .update_every = 4, .overlaps = overlaps};
    const auto traced = [&](int64_t after, int64_t steps) {
      const ReadTrace trace = read(record({{after, {.steps = steps, .ranks = {0}}}},
                                          after + steps + 1, TraceRecorder::kMostEvents, setting)
                                       .texts[0]);
      check_nesting(trace.events);
      return trace;
    };
    const auto updates = [](const ReadTrace& trace) {
      return std::ranges::count_if(trace.events, [](const TraceEvent& event) {
        return event.name.starts_with("update rest of part ") && event.bytes > 0;
      });
    };
    const ReadTrace between = traced(1, 2);  // steps 2 and 3, of which the plan is
    const RunPlan plan = dry_run(options_of(setting), {.data = kRanks}, {});
    const auto moved = link_bytes(between);
    for (int link = 0; link < kLinks; ++link) {
      CAPTURE(name_of(static_cast<Link>(link)));
      CHECK(nth(moved, link) == 2 * nth(plan.of_rank(0).link_bytes, link));
    }
    CHECK(nth(moved, Link::kToHost) > 0);
    CHECK(updates(between) == 0);
    // Steps 4 to 8: two intervals end. What is late ends when the next interval does, or before.
    const ReadTrace ends = traced(3, 5);
    CHECK(std::ranges::count(ends.tracks, "updates by the host") == 1);
    if (!overlaps) {
      parts = updates(ends) / 2;
      CHECK(parts > 0);
      CHECK(named_within_steps(ends, "update rest of part ") == 2 * parts);
    } else {
      CHECK(updates(ends) >= parts);
      CHECK(updates(ends) <= 2 * parts);
    }
  }
}

TEST_CASE("a trace has the thread that updates ahead on a track of its own", "[train]") {
  Setting setting = kPlain;
  setting.state = Tier::kHost;
  setting.update_ahead = true;
  setting.clipping = 0;
  const Recorded recorded =
      record({{1, {.steps = 2, .ranks = {1}}}}, 4, TraceRecorder::kMostEvents, setting);
  const ReadTrace trace = read(recorded.texts[1]);
  check_nesting(trace.events);
  const auto track = std::ranges::find(trace.tracks, "updates ahead");
  REQUIRE(track != trace.tracks.end());
  const auto number = static_cast<int>(track - trace.tracks.begin()) + 1;
  int64_t parts = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.track != number) continue;
    CHECK(event.name.starts_with("update ahead part "));
    CHECK(event.bytes > 0);
    ++parts;
  }
  CHECK(parts >= 2);
}

TEST_CASE("only who is asked records, and an order without steps ends it", "[train]") {
  const Recorded recorded =
      record({{1, {.steps = 500, .ranks = {1}}}, {4, {.steps = 0, .ranks = {}}}}, 6);
  CHECK(recorded.texts[0].empty());
  const ReadTrace trace = read(recorded.texts[1]);
  CHECK(trace.steps == 3);
  CHECK(trace.first_step == 2);
  CHECK(read(record({{4, {.steps = 500, .ranks = {0}}}}, 6).texts[0]).steps == 2);
  CHECK(record({}, 3).texts[0].empty());
}

TEST_CASE("what there is no room for is counted, and the trace ends", "[train]") {
  const ReadTrace trace = read(record({{0, {.steps = 500, .ranks = {0}}}}, 8, 100).texts[0]);
  CHECK(trace.steps == 1);
  CHECK(trace.left_out > 0);
  CHECK(count_of(trace, "kernel") <= 100);
  check_nesting(trace.events);
}

}  // namespace ds
