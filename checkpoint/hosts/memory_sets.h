// What the states that hosts keep are, and which of them are whole (pure). A *set* is the state of
// the whole world after one step: one pieces file (checkpoint/format.h) per rank that saved, and
// the manifest that names them. Each file lies with its rank's host: in its memory, and then a copy
// in that of another host, or on its disk (checkpoint/hosts/local_tags.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ds {

struct SetIdentity {
  int64_t epoch = 0;  // that saved it
  int64_t step = 0;
  int64_t begun_in = 0;  // the epoch that began the training
  int files = 0;         // one per rank of that epoch
  std::string digest;    // of the manifest
  bool operator==(const SetIdentity&) const = default;
};

// A file that a host keeps.
struct KeptFile {
  SetIdentity set;
  int rank = 0;       // that saved it
  int buffer = 0;     // which of its rank's places it lies in; the same for all files of a set
  int64_t bytes = 0;  // of the pieces file
  int64_t tail = 0;   // where its index begins
};

struct HostFile {
  int host = 0;
  KeptFile file;
};

struct WholeSet {
  SetIdentity id;
  int buffer = 0;
  struct Place {
    std::vector<int> hosts;  // that keep the file, in rising order
    int64_t bytes = 0;
    int64_t tail = 0;
  };
  std::vector<Place> files;  // by rank
};
// The sets of which every file is kept somewhere, the newest (format.h, age_of) first.
std::vector<WholeSet> whole_sets(std::span<const HostFile> kept);
// The newest step of which anything is kept, whole or not.
std::optional<int64_t> newest_kept_step(std::span<const HostFile> kept);

// Which host each rank is on, from 0: ranks of one host are consecutive, and each host's begin at
// local rank 0.
std::vector<int> hosts_of_ranks(std::span<const int> local_ranks);

struct PeerCopy {
  int from = 0, to = 0;  // ranks
  bool operator==(const PeerCopy&) const = default;
};
// Each rank's file goes to one rank of the next host (after the last comes the first), spread over
// that host's ranks; none with a single host. In an order in which ranks that each do their part,
// one after the other, never wait for each other in a ring; half of the hosts send while the other
// half receives.
std::vector<PeerCopy> plan_peer_copies(std::span<const int> host_of);

// Who sends a kept file to a rank whose host lacks it: one of the ranks of the hosts that keep it.
int sender_of(const WholeSet::Place& place, int file, std::span<const int> host_of);

}  // namespace ds
