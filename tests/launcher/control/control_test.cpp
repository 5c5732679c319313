// Both ends of the control plane in one process, joined by socket pairs as in a real run.
#include <poll.h>

#include <algorithm>
#include <thread>

#include "launcher/control/coordinator.h"
#include "launcher/process/process.h"
#include "proto/build_info.h"
#include "proto/step_metrics.h"
#include "rankd/control/session.h"
#include "tests/launcher/finishing.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

// A coordinator for `ranks` ranks and the connections they would inherit.
class ControlPlane {
 public:
  explicit ControlPlane(int ranks, const std::string& build = build_id())
      : coordinator_({1, make_tokens(ranks), build, "digest"}) {}

  Coordinator& coordinator() { return coordinator_; }

  std::unique_ptr<ControlClient> connect(int rank, const std::string& token, int64_t epoch = 1,
                                         const std::string& digest = "digest") {
    SocketEnds ends = make_socket_pair();
    coordinator_.adopt(std::move(ends.ours));
    Bootstrap bootstrap;
    bootstrap.coordinator_address = fmt::format("fd:{}", ends.theirs.release());
    bootstrap.token = token;
    bootstrap.rank = rank;
    bootstrap.epoch = epoch;
    bootstrap.config_digest = digest;
    return connect_control(bootstrap);
  }
  std::unique_ptr<ControlClient> connect(int rank) { return connect(rank, token_of(rank)); }

  static std::string token_of(int rank) { return fmt::format("token of rank {}", rank); }

  // The next event of the wanted kind; others before it are dropped.
  template <class Body>
  std::pair<RankEvent, Body> expect() {
    while (true) {
      for (auto next = seen_.begin(); next != seen_.end();) {
        const RankEvent event = std::move(*next);
        next = seen_.erase(next);
        if (const Body* body = std::get_if<Body>(&event.body)) {
          return {event, *body};
        }
      }
      pollfd ready{coordinator_.event_fd(), POLLIN, 0};
      REQUIRE(poll(&ready, 1, 10'000) == 1);
      seen_ = coordinator_.take_events();
    }
  }

  // What comes in the next moment is kept for expect().
  void pump() {
    pollfd ready{coordinator_.event_fd(), POLLIN, 0};
    if (poll(&ready, 1, 10) == 0) return;
    for (RankEvent& event : coordinator_.take_events()) seen_.push_back(std::move(event));
  }
  bool finish(ControlClient& client, ExitCode code, ErrorOrigin origin, const std::string& error) {
    return finish_while([this] { pump(); }, client, code, origin, error);
  }

  control::RankMessage expect_message(control::RankMessage::BodyCase kind) {
    while (true) {
      auto [event, message] = expect<control::RankMessage>();
      if (message.body_case() == kind) {
        return message;
      }
    }
  }

 private:
  static std::vector<std::string> make_tokens(int ranks) {
    std::vector<std::string> tokens;
    for (int rank = 0; rank < ranks; ++rank) {
      tokens.push_back(token_of(rank));
    }
    return tokens;
  }

  Coordinator coordinator_;
  std::vector<RankEvent> seen_;
};

control::JobPlan small_plan(int rank) {
  control::JobPlan plan;
  plan.set_rank(rank);
  plan.set_world_size(2);
  plan.set_epoch(1);
  plan.set_threads(3);
  plan.set_config_text("{}");
  plan.set_shm_name("dslaunch-abc");
  plan.set_resume(control::JobPlan::REQUIRED);
  plan.set_resume_tag("global_step6");
  return plan;
}

// Joins while the coordinator's side answers.
JobPlan join(ControlPlane& plane, ControlClient& client, int rank) {
  JobPlan plan;
  std::thread rank_thread([&] { plan = client.join(); });
  const auto [event, request] = plane.expect<JoinEvent>();
  plane.coordinator().admit(request.ticket, small_plan(rank));
  rank_thread.join();
  return plan;
}

Command await_command(ControlClient& client) {
  while (true) {
    if (const std::optional<Command> command = client.poll()) {
      return *command;
    }
    std::this_thread::yield();
  }
}

}  // namespace

TEST_CASE("metrics of a step travel by name, and a name that nobody can show is passed over",
          "[launcher][rankd]") {
  const StepMetrics said{
      .step = 5, .total_steps = 9, .values = {{"loss", 0.1}, {"samples", 0x1p53}}};
  control::StepMetrics message = to_proto(said);
  message.add_metrics()->set_name("entropy");
  const StepMetrics heard = from_proto(message);
  CHECK(heard.step == 5);
  CHECK(heard.total_steps == 9);
  CHECK(heard.values.said().size() == 2);
  CHECK(heard.values.find("loss") == 0.1);
  CHECK(heard.values.find("samples") == 0x1p53);
}

TEST_CASE("what is read and written moves the phases that do nothing else", "[launcher][rankd]") {
  const auto micro_steps_in = [](const std::string& phase) {
    ControlPlane plane(1);
    const std::unique_ptr<ControlClient> client = plane.connect(0);
    join(plane, *client, 0);
    client->report_progress({4, 0, "load"});
    client->report_moved(int64_t{9} << 20);
    client->report_progress({4, 1, phase});
    client->report_moved((int64_t{3} << 20) - 1);
    client->report_moved(int64_t{2} << 20);
    CHECK(plane.finish(*client, ExitCode::kDone, ErrorOrigin::kOwn, ""));
    // The last heartbeat is that of the end; there may be earlier ones.
    control::Progress last;
    while (true) {
      const auto [event, message] = plane.expect<control::RankMessage>();
      if (message.has_final()) break;
      if (message.has_heartbeat()) last = message.heartbeat();
    }
    CHECK(last.phase() == phase);
    return last.micro_step();
  };
  CHECK(micro_steps_in("save") == 4);
  CHECK(micro_steps_in("export") == 4);
  CHECK(micro_steps_in("train") == 1);
}

TEST_CASE("a rank joins, reports everything, and leaves", "[launcher][rankd]") {
  ControlPlane plane(2);
  const std::unique_ptr<ControlClient> client = plane.connect(1);
  const JobPlan plan = join(plane, *client, 1);
  CHECK(plan.rank == 1);
  CHECK(plan.world_size == 2);
  CHECK(plan.threads == 3);
  CHECK(plan.config_text == "{}");
  CHECK(plan.shm_name == "dslaunch-abc");
  CHECK(plan.resume == ResumeMode::kRequired);
  CHECK(plan.resume_tag == "global_step6");

  client->report_progress({4, 2, "train"});
  StepMetrics metrics;
  metrics.step = 5;
  metrics.total_steps = 9;
  metrics.values = {{"loss", 0.1}, {"validation_loss", 2}};
  client->report_step(metrics);
  client->report_commit({"global_step5", 5});
  client->report_text("bits per byte 1.9");
  client->report_plan("{}");
  client->report_measured({5, 1, 2, 3, 4, {{"parameters", 7}}});
  using Kind = control::RankMessage;
  const control::RankMessage step = plane.expect_message(Kind::kStep);
  const StepMetrics heard = from_proto(step.step());
  CHECK(heard.step == 5);
  CHECK(heard.total_steps == 9);
  CHECK(heard.values.find("loss") == 0.1);
  CHECK_FALSE(heard.values.has("grad_norm"));
  CHECK(heard.values.find("validation_loss") == 2);
  CHECK(plane.expect_message(Kind::kCommit).commit().tag() == "global_step5");
  CHECK(plane.expect_message(Kind::kText).text() == "bits per byte 1.9");
  CHECK(plane.expect_message(Kind::kPlanJson).plan_json() == "{}");
  CHECK(plane.expect_message(Kind::kMeasured).measured().categories().at("parameters") == 7);

  CHECK(plane.finish(*client, ExitCode::kBadData, ErrorOrigin::kOwn, "bad token"));
  CHECK(plane.expect_message(Kind::kHeartbeat).heartbeat().micro_step() == 2);
  const control::FinalReport final = plane.expect_message(Kind::kFinal).final();
  CHECK(final.exit_code() == 65);
  CHECK(final.error() == "bad token");
  plane.expect<AttendanceEnded>();
}

TEST_CASE("steps are told together, in order and before what follows them", "[launcher][rankd]") {
  ControlPlane plane(1);
  const std::unique_ptr<ControlClient> client = plane.connect(0);
  join(plane, *client, 0);
  using Kind = control::RankMessage;
  StepMetrics metrics;
  const auto tell = [&](int64_t step) {
    metrics.step = step;
    client->report_step(metrics);
  };
  tell(1);  // and nothing behind it
  CHECK(plane.expect_message(Kind::kStep).step().step() == 1);
  for (int64_t step = 2; step <= 20; ++step) tell(step);
  client->report_text("later");
  for (int64_t step = 2; step <= 20; ++step) {
    CHECK(plane.expect_message(Kind::kStep).step().step() == step);
  }
  CHECK(plane.expect_message(Kind::kText).text() == "later");
  tell(21);
  CHECK(plane.finish(*client, ExitCode::kDone, ErrorOrigin::kNone, ""));
  CHECK(plane.expect_message(Kind::kStep).step().step() == 21);
  CHECK(plane.expect_message(Kind::kFinal).final().exit_code() == 0);
}

TEST_CASE("a launcher that stands still costs no report, and nobody ends before it has heard",
          "[launcher][rankd]") {
  ControlPlane plane(1);
  const std::unique_ptr<ControlClient> client = plane.connect(0);
  join(plane, *client, 0);
  constexpr int64_t kSteps = 20000;  // far more than the connection holds
  StepMetrics metrics;
  for (metrics.step = 1; metrics.step <= kSteps; ++metrics.step) client->report_step(metrics);
  client->report_measured({kSteps, 0, 0, 0, 0, {}});
  CHECK(plane.finish(*client, ExitCode::kDone, ErrorOrigin::kNone, ""));
  using Kind = control::RankMessage;
  for (int64_t step = 1; step <= kSteps; ++step) {
    REQUIRE(plane.expect_message(Kind::kStep).step().step() == step);
  }
  plane.expect_message(Kind::kMeasured);
  CHECK(plane.expect_message(Kind::kFinal).final().exit_code() == 0);
}

TEST_CASE("a step is acknowledged when it is written, and everything with the last report",
          "[launcher][rankd]") {
  ControlPlane plane(1);
  const std::unique_ptr<ControlClient> client = plane.connect(0);
  join(plane, *client, 0);
  const auto all_taken = [&] {
    for (int look = 0; look < 200 && !client->untaken_steps().empty(); ++look) plane.pump();
    return client->untaken_steps().empty();
  };
  StepMetrics metrics;
  metrics.step = 7;
  metrics.values.set("loss", 0.25);
  client->report_step(metrics);
  CHECK(plane.expect_message(control::RankMessage::kStep).step().step() == 7);
  for (int look = 0; look < 20; ++look) plane.pump();
  REQUIRE(client->untaken_steps().size() == 1);  // taken, but not written
  CHECK(client->untaken_steps().front().step == 7);
  CHECK(client->untaken_steps().front().values.find("loss") == 0.25);
  plane.coordinator().steps_are_written();
  CHECK(all_taken());
  metrics.step = 8;
  client->report_step(metrics);
  CHECK(plane.finish(*client, ExitCode::kDone, ErrorOrigin::kNone,
                     ""));  // whether or not it was written
}

TEST_CASE("commands reach those who attend and those who come later", "[launcher][rankd]") {
  ControlPlane plane(2);
  const std::unique_ptr<ControlClient> early = plane.connect(0);
  join(plane, *early, 0);
  plane.coordinator().send_to_all(control::CommandMessage::SAVE_NOW);
  plane.coordinator().send_to_all(control::CommandMessage::STOP_AND_SAVE);
  const std::unique_ptr<ControlClient> late = plane.connect(1);
  join(plane, *late, 1);
  for (ControlClient* client : {early.get(), late.get()}) {
    CHECK(await_command(*client) == Command::kSaveNow);
    CHECK(await_command(*client) == Command::kStopAndSave);
    CHECK_FALSE(client->poll());
  }
}

TEST_CASE("nobody joins with a wrong token, rank or epoch, or twice", "[launcher][security]") {
  ControlPlane plane(2);
  CHECK_THROWS_WITH(plane.connect(0, "guess")->join(), Catch::Contains("not admitted"));
  CHECK_THROWS_AS(plane.connect(0, "")->join(), Error);
  CHECK_THROWS_AS(plane.connect(1, ControlPlane::token_of(0))->join(), Error);
  CHECK_THROWS_AS(plane.connect(2, ControlPlane::token_of(0))->join(), Error);
  CHECK_THROWS_AS(plane.connect(-1, ControlPlane::token_of(0))->join(), Error);
  CHECK_THROWS_AS(plane.connect(0, ControlPlane::token_of(0), 2)->join(), Error);
  CHECK(plane.coordinator().take_events().empty());
  const std::unique_ptr<ControlClient> client = plane.connect(0);
  join(plane, *client, 0);
  CHECK_THROWS_AS(plane.connect(0)->join(), Error);
}

TEST_CASE("another build or configuration is refused by name", "[launcher]") {
  ControlPlane other_build(1, "9.9.9+abcdef");
  CHECK_THROWS_WITH(other_build.connect(0)->join(),
                    Catch::Contains("build differs") && Catch::Contains("9.9.9+abcdef"));
  CHECK_THAT(other_build.expect<JoinRefused>().second.reason, Catch::Contains("build differs"));
  ControlPlane plane(1);
  CHECK_THROWS_WITH(plane.connect(0, ControlPlane::token_of(0), 1, "other")->join(),
                    Catch::Contains("configuration differs"));
}

TEST_CASE("the loop may refuse a rank with its own words", "[launcher]") {
  ControlPlane plane(1);
  const std::unique_ptr<ControlClient> client = plane.connect(0);
  std::string refusal;  // Catch's assertions are for one thread at a time
  bool told = true;
  std::thread rank_thread([&] {
    try {
      client->join();
    } catch (const Error& error) {
      refusal = error.what();
    }
    told = client->finish(ExitCode::kClusterUnusable, ErrorOrigin::kOwn, "refused");
  });
  plane.coordinator().refuse(plane.expect<JoinEvent>().second.ticket, "held by pid 7");
  rank_thread.join();
  CHECK_THAT(refusal, Catch::Contains("held by pid 7"));
  CHECK_FALSE(told);
}

TEST_CASE("a rank whose launcher is gone is told so", "[launcher][rankd]") {
  auto plane = std::make_unique<ControlPlane>(1);
  const std::unique_ptr<ControlClient> client = plane->connect(0);
  join(*plane, *client, 0);
  plane.reset();
  client->report_text("nobody reads this");
  CHECK_FALSE(client->finish(ExitCode::kDone, ErrorOrigin::kNone, ""));
}

TEST_CASE("a rank that goes without a word is seen to go", "[launcher]") {
  ControlPlane plane(1);
  std::unique_ptr<ControlClient> client = plane.connect(0);
  join(plane, *client, 0);
  plane.expect_message(control::RankMessage::kHeartbeat);  // it attends
  client.reset();
  CHECK(plane.expect<AttendanceEnded>().first.rank == 0);
}

TEST_CASE("what is no bootstrap is refused", "[rankd]") {
  const auto feed = [](std::string_view bytes) {
    PipeEnds pipe = make_pipe();
    REQUIRE(write(pipe.write.get(), bytes.data(), bytes.size()) ==
            static_cast<ssize_t>(bytes.size()));
    pipe.write = Fd();
    return read_bootstrap(pipe.read.get());
  };
  using namespace std::string_view_literals;
  CHECK_THROWS_AS(feed(""), UsageError);
  CHECK_THROWS_AS(feed("abc"), UsageError);
  CHECK_THROWS_AS(feed("\x05\0\0\0ab"sv), UsageError);
  CHECK_THROWS_AS(feed("\xff\xff\xff\xff"
                       "abcd"sv),
                  UsageError);
  CHECK_THROWS_AS(feed("\x04\0\0\0\xff\xff\xff\xff"sv), UsageError);
  control::Bootstrap bootstrap;
  bootstrap.set_rank(3);
  bootstrap.set_token("secret");
  const std::string body = bootstrap.SerializeAsString();
  const Bootstrap read = feed(std::string{static_cast<char>(body.size()), 0, 0, 0} + body);
  CHECK(read.rank == 3);
  CHECK(read.token == "secret");
  Bootstrap bad;
  bad.coordinator_address = "fd:x";
  CHECK_THROWS_AS(connect_control(bad), UsageError);
}

}  // namespace ds
