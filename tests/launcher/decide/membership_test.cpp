// Stories of an epoch: what the launcher sees, line by line, and what Membership then decides.
#include "launcher/decide/watch/membership.h"

#include <map>
#include <sstream>

#include "launcher/decide/text/amounts.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

// Commands of tests/golden/launcher/membership.txt, one a line:
//   world <ranks>                 a new world at time 0
//   at <seconds>                  the clock
//   join <rank> [epoch=<n>]       heartbeat <rank> <step> [epoch=<n>]
//   report <rank> <code> [peer] [words]      exit <rank> <code>      signal <rank> <number>
//   stop <why> <code saved> <code killed> [grace=<s>]      kill <code> <why>
//   hosts <of rank 0> <of rank 1> ...         before the world
//   cut <rank> <peer> [heard]     what the rank says of its connections, nothing else
//   explain
// After each line everything that tick() decides is printed.
class Story {
 public:
  std::string tell(const std::string& lines) {
    std::istringstream in(lines);
    std::string out;
    for (std::string line; std::getline(in, line);) {
      out += step(line);
      while (const auto decision = world_->tick(now_)) {
        out += show(*decision);
      }
    }
    return out.empty() ? "nothing\n" : out;
  }

 private:
  static std::string show(const Decision& decision) {
    const std::map<Decision::Kind, std::string> names{{Decision::Kind::kStart, "start"},
                                                      {Decision::Kind::kStopAll, "stop all"},
                                                      {Decision::Kind::kFinish, "finish"}};
    const bool ends = decision.kind != Decision::Kind::kStart;
    return fmt::format("{} epoch {}{}: {}\n", names.at(decision.kind), decision.epoch,
                       ends ? fmt::format(" with code {}", decision.exit_code) : "",
                       decision.reason);
  }

  std::string step(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "world") {
      now_ = Time::zero();
      words >> options_.world_size;
      world_.emplace(options_, now_);
    } else if (verb == "at") {
      double seconds = 0;
      words >> seconds;
      // The loop ticks once a second; without that, silence would be our own.
      const Time end = std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
      std::string out;
      for (; now_ + std::chrono::seconds(1) < end; now_ += std::chrono::seconds(1)) {
        while (const auto decision = world_->tick(now_)) {
          out += fmt::format("[{}] {}", format_duration(now_), show(*decision));
        }
      }
      now_ = end;
      return out;
    } else if (verb == "asleep") {
      double seconds = 0;
      words >> seconds;
      now_ = std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
    } else if (verb == "hosts") {
      options_.hosts.clear();
      for (std::string host; words >> host;) options_.hosts.push_back(host);
    } else if (verb == "explain") {
      return world_->explain() + "\n";
    } else {
      return rank_step(verb, words);
    }
    return "";
  }

  std::string rank_step(const std::string& verb, std::istringstream& words) {
    int number = 0;
    std::string rest;
    if (verb == "join") {
      words >> number >> rest;
      const auto refusal = world_->joined(now_, {number, epoch_of(rest), "here", 100 + number});
      return refusal ? fmt::format("refused: {}\n", *refusal) : "";
    }
    if (verb == "heartbeat") {
      int64_t at_step = 0;
      words >> number >> at_step >> rest;
      const bool taken = world_->heartbeat(now_, epoch_of(rest), number, {at_step, 0, "train"});
      return taken ? "" : "refused\n";
    }
    if (verb == "cut") {
      int peer = 0;
      words >> number >> peer >> rest;
      world_->links_reported(now_, number, {{peer, rest == "heard", "silence"}});
      return "";
    }
    int value = 0;
    if (verb == "stop") {
      StopRequest request;
      int saved = 0;
      words >> request.why >> saved >> request.code_when_killed >> rest;
      request.code_when_saved = static_cast<ExitCode>(saved);
      if (rest.starts_with("grace=")) {
        request.grace = std::chrono::seconds(std::stoi(rest.substr(6)));
      }
      world_->stop_requested(now_, request);
    } else if (verb == "kill") {
      words >> value >> std::ws;
      std::getline(words, rest);
      world_->kill_requested(now_, value, rest);
    } else if (verb == "report") {
      words >> number >> value >> std::ws;
      std::getline(words, rest);
      const bool peer = rest.starts_with("peer");
      world_->reported_end(now_, number, value, peer ? Blame::kPeer : Blame::kOwn,
                           peer ? rest.substr(5) : rest);
    } else if (verb == "exit" || verb == "signal") {
      words >> number >> value;
      world_->ended(now_, number, verb == "exit" ? value : 0, verb == "exit" ? 0 : value);
    } else {
      FAIL("unknown command " << verb);
    }
    return "";
  }

  static int64_t epoch_of(const std::string& word) {
    return word.starts_with("epoch=") ? std::stoll(word.substr(6)) : 1;
  }

  Membership::Options options_;
  Time now_{};
  std::optional<Membership> world_;
};

}  // namespace

TEST_CASE("membership stories come out as written", "[launcher]") {
  Story story;
  testing::run_golden("launcher/decide/membership.txt",
                      [&](const std::string& lines) { return story.tell(lines); });
}

TEST_CASE("the next deadline is when silence would become a failure", "[launcher]") {
  using std::chrono::seconds;
  Membership world({.world_size = 1}, seconds(10));
  CHECK(world.next_deadline() == seconds(70));
  world.joined(seconds(11), {0, 1, "here", 1});
  REQUIRE(world.tick(seconds(12))->kind == Decision::Kind::kStart);
  CHECK(world.next_deadline() == seconds(17));
  world.stop_requested(seconds(13), {"TERM", ExitCode::kRequeue, 143, seconds(1)});
  CHECK(world.next_deadline() == seconds(14));
}

TEST_CASE("a world without ranks is refused", "[launcher]") {
  CHECK_THROWS_AS(Membership({.world_size = 0}, Time::zero()), InternalError);
}

}  // namespace ds
