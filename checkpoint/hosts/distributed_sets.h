// Sets whose files lie spread over hosts, loaded by any number of ranks on any hosts that together
// keep all of them: what a rank needs and its host lacks comes over the host end, each block
// verified where it is used.
//
// Collective: all ranks of the exchange call alike. Refuses to know whether the files lie in
// memory or on disks, and which set is to be loaded.
#pragma once

#include <array>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/hosts/kept_files.h"
#include "checkpoint/hosts/set_view.h"
#include "checkpoint/reader.h"
#include "comm/contract/host_exchange.h"
#include "core/values/index.h"

namespace ds {

// Which set it is, as it travels between ranks.
struct WireSet {
  int64_t epoch = 0, step = 0, begun_in = 0, files = 0;
  std::array<char, 32> digest{};
};
WireSet to_wire(const SetIdentity& set);
SetIdentity from_wire(const WireSet& in);

inline constexpr size_t kChunkBytes = size_t{4} << 20;  // travels between hosts at a time

class DistributedSets {
 public:
  // kept: what this rank's host keeps. host_of: of each rank, from 0 without gaps; the lowest rank
  // of each speaks for it.
  DistributedSets(const KeptFiles& kept, std::vector<int> host_of, HostExchange& exchange);

  const std::vector<int>& host_of() const { return host_of_; }
  int host() const { return nth(host_of_, exchange_.rank()); }
  bool is_host_leader() const { return is_host_leader_; }
  // What all hosts keep now, the same on every rank.
  std::vector<HostFile> gather();

  struct Use {
    std::string label;  // names the set in errors
    std::string place;  // what its folder is called
    // The ranks that saved what this rank needs.
    std::function<std::set<int>(const CheckpointReader& reader)> wanted;
    std::function<void(CheckpointReader& reader)> take;  // reads no more than was wanted
  };
  // IoError on every rank if one of them cannot; what was taken must then not be used.
  void load(const WholeSet& set, const Use& use);

  // To a rank that receives it in chunks.
  void send_file(const KeptFile& file, int to);

 private:
  bool host_keeps(const WholeSet& set, size_t file) const;
  std::string shared_manifest(const WholeSet& set);
  void bring_tails(const WholeSet& set, const Manifest& manifest, SetView& view);
  void bring_files(const WholeSet& set, const Manifest& manifest,
                   const std::vector<uint8_t>& wanted, SetView& view);

  const KeptFiles& kept_;
  const std::vector<int> host_of_;
  HostExchange& exchange_;
  int hosts_ = 0;
  bool is_host_leader_ = false;
  std::vector<std::byte> chunk_;  // what is under way to a peer
};

}  // namespace ds
