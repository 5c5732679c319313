// What ranks tell each other around a save or a load: votes and traces of tags, as they travel over
// the host end (comm/host_exchange.h). Refuses to know what is saved where.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/tag_list.h"
#include "comm/host_exchange.h"

namespace ds {

// A vote as it travels between ranks: fixed size, so that one all-gather carries all of them.
struct WireVote {
  std::array<char, 64> name{};
  std::array<char, 40> digest{};
  int64_t bytes = -1;  // -1: this rank failed
  WireFailure failure;

  void vote(const FileVote& vote);
  void fail(const std::string& why);
};

std::vector<WireVote> exchange_votes(const WireVote& mine, HostExchange& exchange);
// "rank 2 on node-1: ..." of the first rank that failed, or nothing.
std::string first_failure(const std::vector<WireVote>& all);
std::vector<FileVote> votes_of(const std::vector<WireVote>& all, int64_t epoch);

using WireText = std::array<char, 1024>;
WireText to_wire_text(const std::string& text);

// A trace of a tag, cut to what fits.
struct WireTrace {
  std::array<char, 160> name{};
  int64_t step = -1;      // -1: not known
  int64_t begun_in = -1;  //
  WireText why{};
};
WireTrace to_wire(const RejectedTag& trace);
RejectedTag from_wire(const WireTrace& wire);

}  // namespace ds
