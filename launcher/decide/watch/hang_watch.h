// Who is stuck (pure): a rank that still beats but does not progress. Ranks wait for each other in
// collectives, so when one is stuck all are soon; the culprit is the one that is not inside a
// collective.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/decide/text/clock_time.h"

namespace ds {

// The newest collective of a rank, from its ledger (comm/ledger.h).
struct LastCollective {
  uint64_t number = 0;  // over all groups, from 1; 0: none yet
  std::string group;
  uint64_t sequence = 0;
  std::string op;
  bool inside = false;
  bool operator==(const LastCollective&) const = default;
};

std::string describe(const LastCollective& collective);  // "all_gather #57 of data"

struct RankProgress {
  int64_t step = 0;
  int64_t micro_step = 0;
  std::string phase;
  LastCollective collective{};
  int64_t total = 0;  // what `micro_step` comes to by the end of the phase; 0: not known
  // Not before it has loaded: what it goes on from is in its checkpoint.
  bool knows_step() const { return !phase.empty() && phase != "plan" && phase != "load"; }
  bool operator==(const RankProgress&) const = default;
};

// What `micro_step` counts in this phase: "micro-step", "batch", "MiB" (read and written).
std::string_view counted_in(std::string_view phase);
// "batch 3 of 10", "MiB 12"; empty before anything is counted.
std::string count_of(const RankProgress& progress);

std::string place_of(const RankProgress& progress);  // "at step 6.0 train", "load", "joined"
std::string describe(
    const RankProgress& progress);  // "at step 6.0 train inside all_gather #57 of data"

class HangWatch {
 public:
  struct Options {
    Time floor = std::chrono::seconds(30);  // in phase "train": the larger of this and
    int64_t steps = 5;                      // so many median steps
    std::map<std::string, Time> phases{{"plan", std::chrono::minutes(10)},
                                       {"tokenize", std::chrono::minutes(10)},
                                       {"load", std::chrono::minutes(30)},
                                       {"save", std::chrono::minutes(30)},
                                       {"export", std::chrono::minutes(30)},
                                       {"evaluate", std::chrono::minutes(60)},
                                       {"sample", std::chrono::minutes(10)},
                                       {"paused", std::chrono::hours(24 * 3650)}};  // as told
  };

  HangWatch(Options options, int ranks);

  // The first report of a rank begins its watch.
  void progressed(Time now, int rank, const RankProgress& progress);
  void left(int rank);         // it ended, or said that it will
  void forgive(Time silence);  // we did not listen for so long

  struct Hang {
    int rank = 0;
    Time still{};
    std::string words{};  // "no progress for 31.0 s in step 12, train; ..."
  };
  std::optional<Hang> hung(Time now) const;
  // The one everybody waits for, however long it has been; nothing where everybody is inside a
  // collective, or nobody is.
  std::optional<Hang> awaited(Time now) const;
  Time next_deadline() const;

 private:
  struct Watched {
    bool present = false;
    Time since{};
    RankProgress progress;
  };
  Time bound(const Watched& rank) const;
  Time median_step() const;
  const Watched* culprit() const;
  Hang describe_hang(Time now, const Watched& rank) const;

  const Options options_;
  std::vector<Watched> ranks_;
  int64_t furthest_ = 0;
  std::optional<Time> furthest_at_;
  std::vector<Time> step_times_;  // the last ones, as a ring
  size_t next_time_ = 0;
};

}  // namespace ds
