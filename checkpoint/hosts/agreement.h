// What ranks tell each other around a save or a load: votes and traces of tags, as they travel over
// the host end (comm/contract/host_exchange.h). Refuses to know what is saved where.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/tag.h"
#include "checkpoint/tag_list.h"
#include "comm/contract/host_exchange.h"

namespace ds {

// A vote as it travels between ranks: fixed size, so that one all-gather carries all of them.
struct WireVote {
  std::array<char, 64> name{};
  std::array<char, 40> digest{};
  int64_t bytes = -1;  // -1: this rank failed; -2: it must not be saved at all
  WireFailure failure;

  void vote(const FileVote& vote);
  void fail(const std::string& why);
  void refuse(const std::string& why);
};

std::vector<WireVote> exchange_votes(const WireVote& mine, HostExchange& exchange);
// "rank 2 on node-1: ..." of the first rank that failed or refused, or nothing.
std::string first_failure(const std::vector<WireVote>& all);
// The same of the first that refused.
std::string first_refusal(const std::vector<WireVote>& all);
std::vector<FileVote> votes_of(const std::vector<WireVote>& all, int64_t epoch);

using WireText = std::array<char, 1024>;
WireText to_wire_text(const std::string& text);

// What led to a line, as it travels.
struct WireAncestors {
  std::array<Ancestor, kMostAncestors> line{};
  int64_t count = 0;
};
WireAncestors to_wire(const std::vector<Ancestor>& after);
std::vector<Ancestor> from_wire(const WireAncestors& wire);

struct WireTag {
  std::array<char, kLongestTag + 1> name{};
  bool skipped = false, named = false;
  int64_t step = 0, epoch = 0, begun_in = 0;
  WireAncestors after{};
};
WireTag to_wire(const CommittedTag& tag);
CommittedTag from_wire(const WireTag& wire);

// A trace of a tag, cut to what fits.
struct WireTrace {
  std::array<char, 160> name{};
  int64_t step = -1;      // -1: not known
  int64_t begun_in = -1;  //
  WireText why{};
  WireAncestors after{};
};
WireTrace to_wire(const RejectedTag& trace);
RejectedTag from_wire(const WireTrace& wire);

}  // namespace ds
