// Stories of a run over its epochs: what the launcher sees, line by line, and what RunCore then has
// done.
#include "launcher/decide/run_core.h"

#include <sstream>

#include "core/status/error.h"
#include "launcher/decide/text/amounts.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

Time seconds_of(const std::string& text) {
  return std::chrono::duration_cast<Time>(std::chrono::duration<double>(std::stod(text)));
}

std::string rest_of(std::istringstream& words) {
  std::string out;
  words >> std::ws;
  std::getline(words, out);
  return out;
}

// Without the place in the source.
std::string first_words(const std::string& message) {
  return message.substr(0, message.rfind(" ("));
}

// "a b" are two hosts of a slot each.
std::vector<PoolNode> nodes_of(const std::string& hosts) {
  std::vector<PoolNode> out;
  std::istringstream in(hosts);
  for (std::string host; in >> host;) out.push_back({host, {0}});
  return out;
}

std::string show(const std::vector<RankPlacement>& ranks) {
  std::string out = format_count(static_cast<int64_t>(ranks.size()), "rank");
  for (const RankPlacement& rank : ranks) out += rank.host.empty() ? "" : " " + rank.host;
  return out;
}

std::string show(const run_action::ClaimEpoch& action) {
  return fmt::format("claim epoch {} or later{} for {}", action.at_least,
                     action.first ? ", the first," : "", show(action.ranks));
}
std::string show(const run_action::StartEpoch& action) {
  return fmt::format("start epoch {}{}", action.epoch, action.first ? ", the first" : "");
}
std::string show(const run_action::AdmitRanks&) { return "admit"; }
std::string show(const run_action::SaveAndEnd& action) {
  return action.larger == 0 ? "save and end"
                            : fmt::format("save and end for {} ranks", action.larger);
}
std::string show(const run_action::LearnCause& action) {
  return fmt::format("learn the cause: {}", describe(action.cause));
}
std::string show(const run_action::ReportFailure& action) {
  const auto& restart_decision = action.restart_decision;
  return fmt::format(
      "report: {}; {}",
      action.decision.root_cause ? describe(*action.decision.root_cause) : action.decision.reason,
      !restart_decision ? "killed"
      : restart_decision->restart
          ? "goes on"
          : fmt::format("ends with {}: {}", restart_decision->exit_code, restart_decision->reason));
}
std::string show(const run_action::KillRanks&) { return "kill"; }
std::string show(const run_action::EndEpoch& action) {
  if (action.vanished) return "end epoch, which never began";
  return action.exit_code ? fmt::format("end epoch, the last, with {}", *action.exit_code)
                          : "end epoch";
}
std::string show(const run_action::AnnounceNext& action) { return "announce: " + action.line; }
std::string show(const run_action::FinishRun& action) {
  return fmt::format(
      "finish epoch {} with {}: {}{}", action.end.epoch, action.end.exit_code, action.end.reason,
      action.end.root_cause ? fmt::format(" (rank {})", action.end.root_cause->rank) : "");
}
std::string show(const run_action::SeekHost& action) { return "seek " + action.host; }
std::string show(const run_action::TryLinks& action) {
  return fmt::format("try links of {} to {}", action.host, show(action.ranks));
}
std::string show(const run_action::Tell& action) {
  switch (action.to) {
    case run_action::Tell::To::kUserAndLog:
      return "say: " + action.line;
    case run_action::Tell::To::kUser:
      return "say, not logged: " + action.line;
    case run_action::Tell::To::kUserAndWarning:
      return "warn: " + action.line;
    case run_action::Tell::To::kLog:
      break;
  }
  return "log: " + action.line;
}

// Commands of tests/golden/launcher/decide/run_core.txt, one a line:
//   options <key> <value> ...     of the next run: restarts, wait (for hosts), timeout, limit,
//                                 newest, min (hosts), memory; all but the last two are seconds
//                                 or numbers
//   hosts <names>                 of the next run, one slot each; none: two slots of this machine
//   run                           at time 0
//   at <seconds>                  the clock, which ticks every second
//   claimed <epoch>               up: all ranks join
//   unstarted <code> <why> | <hosts>          what comes of StartEpoch
//   losing <hosts>                the next answer to LearnCause names these
//   signal <rank> <number>        exit <rank> <code>          lost <rank> <why>
//   cut <rank> <peer> [heard]     what the rank says of its connections, nothing else
//   step, commit <tag> <seconds>, stop <why>, kill <code> <why>, taken <why>, pause, resume,
//   stood <seconds>, answered <host> <problem>, tried <host> <problem>, join <hosts>
// After each line everything that ready() wants is printed, each with the time where that moved.
class Story {
 public:
  std::string tell(const std::string& lines) {
    std::istringstream in(lines);
    std::string out;
    for (std::string line; std::getline(in, line);) {
      try {
        out += step(line);
        out += execute("");
      } catch (const InternalError& error) {
        out += fmt::format("refused: {}\n", first_words(error.what()));
      }
    }
    return out.empty() ? "nothing\n" : out;
  }

 private:
  std::string execute(const std::string& when) {
    std::string out;
    while (core_) {
      const std::vector<RunAction> actions = core_->ready(now_);
      if (actions.empty()) break;
      for (const RunAction& action : actions) {
        out += when + std::visit([](const auto& body) { return show(body); }, action) + "\n";
        if (const auto* learn = std::get_if<run_action::LearnCause>(&action)) {
          core_->event(now_, run_event::CauseLearned{learn->cause, std::exchange(losing_, {})});
        }
      }
    }
    return out;
  }

  std::string step(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "options") {
      set_options(words);
    } else if (verb == "hosts") {
      options_.nodes.nodes = nodes_of(rest_of(words));
    } else if (verb == "run") {
      now_ = Time::zero();
      if (options_.nodes.nodes.empty()) options_.nodes.nodes = {{"", {0, 1}}};
      options_.epoch.lease = options_.epoch.hang.floor = std::chrono::hours(9);
      options_.epoch.exit_grace = std::chrono::hours(9);
      if (options_.nodes.min_nodes > 0) options_.nodes.fits = [](int) { return true; };
      core_.emplace(std::exchange(options_, {}), now_);
    } else if (verb == "at") {
      std::string out;
      std::string seconds;
      words >> seconds;
      const Time end = seconds_of(seconds);
      for (; now_ + std::chrono::seconds(1) < end; now_ += std::chrono::seconds(1))
        out += execute(fmt::format("[{}] ", format_duration(now_)));
      now_ = end;
      return out;
    } else if (verb == "explain") {
      return core_->membership() == nullptr ? "no epoch\n" : core_->membership()->explain() + "\n";
    } else if (!run_step(verb, words)) {
      rank_step(verb, words);
    }
    return "";
  }

  void set_options(std::istringstream& words) {
    for (std::string key, value; words >> key >> value;) {
      if (key == "restarts") options_.recovery.max_restarts = std::stoi(value);
      if (key == "wait") options_.recovery.wait_for_hosts = seconds_of(value);
      if (key == "room") options_.recovery.wait_for_room = seconds_of(value);
      if (key == "room") options_.recovery.room_in = "/run";
      if (key == "timeout") options_.timeout = seconds_of(value);
      if (key == "limit") options_.time_limit = seconds_of(value);
      if (key == "limit") options_.limited_by = "Slurm";
      if (key == "newest") options_.newest_epoch = std::stoi(value);
      if (key == "min") options_.nodes.min_nodes = std::stoi(value);
      if (key == "memory") options_.keeps_in_memory = value == "yes";
    }
  }

  bool run_step(const std::string& verb, std::istringstream& words) {
    std::string first;
    const auto happens = [&](const RunEvent& event) { core_->event(now_, event); };
    if (verb == "step") {
      happens(run_event::StepDone{});
    } else if (verb == "room") {
      words >> first;
      happens(run_event::RoomSeen{std::stoll(first)});
    } else if (verb == "pause") {
      happens(run_event::Paused{});
    } else if (verb == "resume") {
      happens(run_event::Resumed{});
    } else if (verb == "stop") {
      happens(run_event::StopAsked{{.why = rest_of(words), .grace = std::nullopt}});
    } else if (verb == "taken") {
      happens(run_event::TakenOver{rest_of(words)});
    } else if (verb == "losing") {
      for (std::string host; words >> host;) losing_.push_back(host);
    } else if (verb == "join") {
      core_->join(now_, nodes_of(rest_of(words)));
    } else if (verb == "up") {
      DS_CHECK(core_->membership() != nullptr, "there is no epoch");
      const size_t ranks = core_->membership()->ranks(now_).size();
      for (int rank = 0; rank < static_cast<int>(ranks); ++rank)
        core_->membership()->joined(now_, {rank, core_->epoch(), "here", 100 + rank});
    } else if (verb == "claimed" || verb == "kill" || verb == "stood" || verb == "commit" ||
               verb == "answered" || verb == "tried" || verb == "unstarted") {
      words >> first;
      const std::string rest = rest_of(words);
      if (verb == "claimed") happens(run_event::EpochClaimed{std::stoi(first)});
      if (verb == "kill") happens(run_event::KillAsked{std::stoi(first), rest});
      if (verb == "stood") happens(run_event::StoodStill{seconds_of(first)});
      if (verb == "commit") happens(run_event::TagCommitted{first, seconds_of(rest)});
      if (verb == "answered") happens(run_event::CandidateAnswered{first, rest});
      if (verb == "tried") happens(run_event::LinksTried{first, rest});
      if (verb == "unstarted") happens(unstarted(std::stoi(first), rest));
    } else {
      return false;
    }
    return true;
  }

  static run_event::StartFailed unstarted(int code, const std::string& rest) {
    const size_t bar = std::min(rest.find(" |"), rest.size());
    run_event::StartFailed out{rest.substr(0, bar), code, {}};
    std::istringstream hosts(bar == rest.size() ? "" : rest.substr(bar + 2));
    for (std::string host; hosts >> host;) out.unusable.push_back(host);
    return out;
  }

  void rank_step(const std::string& verb, std::istringstream& words) {
    Membership* const epoch = core_->membership();
    DS_CHECK(epoch != nullptr, "there is no epoch");
    int rank = 0;
    words >> rank;
    const std::string rest = rest_of(words);
    if (verb == "signal") {
      epoch->ended(now_, rank, 0, std::stoi(rest));
    } else if (verb == "exit") {
      const size_t code_end = std::min(rest.find(' '), rest.size());
      const std::string words_of_rank = rest.substr(std::min(code_end + 1, rest.size()));
      epoch->reported_end(now_, rank, std::stoi(rest), Blame::kOwn, words_of_rank);
      epoch->ended(now_, rank, std::stoi(rest), 0);
    } else if (verb == "lost") {
      epoch->host_lost(now_, rank, rest);
    } else if (verb == "cut") {
      epoch->links_reported(now_, rank, {{std::stoi(rest), rest.ends_with("heard"), "silence"}});
    } else {
      FAIL("unknown command " << verb);
    }
  }

  RunCore::Options options_;
  Time now_{};
  std::optional<RunCore> core_;
  std::vector<std::string> losing_;
};

}  // namespace

TEST_CASE("run stories come out as written", "[launcher]") {
  Story story;
  testing::run_golden("launcher/decide/run_core.txt",
                      [&](const std::string& lines) { return story.tell(lines); });
}

}  // namespace ds
