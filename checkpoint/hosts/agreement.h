// What ranks tell each other around a save or a load: votes, and whether any of them failed.
// Collective: all ranks of the communicator call alike. Refuses to know what is saved where.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/tag_list.h"
#include "comm/communicator.h"
#include "core/index.h"

namespace ds {

// A vote as it travels between ranks: fixed size, so that one all-gather carries all of them.
struct WireVote {
  std::array<char, 64> name{};
  std::array<char, 40> digest{};
  int64_t bytes = -1;           // -1: this rank failed
  std::array<char, 64> host{};  // where it did
  std::array<char, 400> error{};

  void vote(const FileVote& vote);
  void fail(const std::string& why);
};

std::vector<WireVote> exchange_votes(const WireVote& mine, Communicator& comm, Stream& stream);
// "rank 2 on node-1: ..." of the first rank that failed, or nothing.
std::string first_failure(const std::vector<WireVote>& all);
std::vector<FileVote> votes_of(const std::vector<WireVote>& all, int64_t epoch);

// Throws the first rank's error as IoError on every rank, so that all of them take the same way; as
// PeerIoError on those that did not fail themselves. `error`: what went wrong here, or nothing.
void agree_on_success(const std::string& what, const std::string& error, Communicator& comm,
                      Stream& stream);

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

// Fixed-size values of all ranks, in rank order.
template <class Value>
std::vector<Value> gather_values(const std::vector<Value>& mine, Communicator& comm,
                                 Stream& stream) {
  std::vector<Value> all(mine.size() * to_size(comm.size()));
  if (mine.empty()) return all;
  std::vector<Value> copy = mine;
  const auto bytes = static_cast<int64_t>(sizeof(Value) * mine.size());
  Tensor gathered = Tensor::borrow(all.data(), {bytes * comm.size()}, DType::kU8);
  comm.all_gather(Tensor::borrow(copy.data(), {bytes}, DType::kU8), gathered, stream);
  return all;
}

// Lists of any length, by rank.
template <class Value>
std::vector<std::vector<Value>> gather_lists(std::vector<Value> mine, Communicator& comm,
                                             Stream& stream) {
  const std::vector<size_t> counts = gather_values(std::vector<size_t>{mine.size()}, comm, stream);
  const size_t most = *std::ranges::max_element(counts);
  mine.resize(most);
  const std::vector<Value> all = gather_values(mine, comm, stream);
  std::vector<std::vector<Value>> out;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * most);
    out.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(counts[rank]));
  }
  return out;
}

// Runs a part that concerns this rank alone; what went wrong in words, or nothing.
template <class Part>
std::string failure_of(const Part& part) {
  try {
    part();
    return "";
  } catch (const Error& failure) {
    return failure.what();
  }
}

}  // namespace ds
