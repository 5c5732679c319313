// What a rank finds out about its connections to other ranks, for whoever reports it: a cut between
// two hosts stops the collectives, but not what each of them says to the launcher. Thread-safe.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace ds {

struct LinkTrouble {
  int peer = 0;        // world rank
  bool heard = false;  // packets of the peer still come in: only the way there is cut
  std::string what;    // "nothing was acknowledged for 8 s"
  bool operator==(const LinkTrouble&) const = default;
};

class LinkBoard {
 public:
  void post(std::vector<LinkTrouble> troubles) {
    const std::scoped_lock lock(mutex_);
    troubles_ = std::move(troubles);
  }
  std::vector<LinkTrouble> troubles() const {
    const std::scoped_lock lock(mutex_);
    return troubles_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<LinkTrouble> troubles_;
};

}  // namespace ds
