// Which hosts do not reach each other (pure): ranks that the launcher hears may still be cut off
// from one another. They tell of their connections that carry nothing; this makes one sentence of
// it, and says which hosts a world can do without. Refuses to know whether the ranks are alive.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/decide/text/clock_time.h"

namespace ds {

// What a rank says about its connection to another one: nothing that it sends there arrives.
struct CutLink {
  int peer = 0;
  bool heard = false;  // the peer's packets come in
  std::string what;
};

class LinkWatch {
 public:
  struct Options {
    // From the second end's report on: others may follow.
    Time both = std::chrono::milliseconds(1500);
    // The other end may have nothing to send, and so nothing to tell.
    Time one = std::chrono::seconds(4);
  };

  // `hosts` by rank, as the hostfile calls them; empty: unknown.
  LinkWatch(Options options, std::vector<std::string> hosts)
      : options_(options), hosts_(std::move(hosts)) {}

  // All that the rank has to complain of now.
  void reported(Time now, int rank, const std::vector<CutLink>& links);
  void forget();  // we did not listen for long: what stands here may be old, and will be said again
                  // if it holds

  struct Verdict {
    int rank = 0;  // of the first host to do without, or an end of the link
    std::vector<std::string>
        without;        // these hosts gone, the others reach each other; empty: hosts are unknown
    std::string words;  // "10.0.0.2 cannot reach 10.0.0.3, the other way works"
  };
  // Once it is sure who has reported what.
  std::optional<Verdict> verdict(Time now) const;
  // What can be said already.
  std::optional<Verdict> suspected() const;
  Time next_deadline() const;

 private:
  using Ends = std::pair<std::string, std::string>;  // in the order of ranks
  struct End {
    std::optional<Time> at;  // it complains since then
    bool heard = false;
    std::string what;
  };
  struct Pair {
    int second_rank = 0;  // one of them at the second end
    End first, second;
  };
  struct Complaint {
    Time since{};
    CutLink link;
  };

  std::string host_of(int rank) const;
  int first_rank_of(const std::string& host) const;
  std::map<Ends, Pair> pairs() const;
  Time due_at(const Pair& pair) const;
  std::vector<std::string> cover(const std::map<Ends, Pair>& pairs) const;
  static std::string sentence(const Ends& ends, const Pair& pair);

  const Options options_;
  const std::vector<std::string> hosts_;
  std::map<std::pair<int, int>, Complaint> complaints_;  // rank, peer
};

}  // namespace ds
