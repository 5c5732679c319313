#include "checkpoint/hosts/agreement.h"

#include <algorithm>
#include <cstring>

#include "core/host.h"

namespace ds {
namespace {

template <size_t N>
void put_text(std::array<char, N>& into, const std::string& text) {
  std::memcpy(into.data(), text.data(), std::min(text.size(), N - 1));
}

}  // namespace

void WireVote::vote(const FileVote& vote) {
  put_text(name, vote.name);
  put_text(digest, vote.digest);
  bytes = vote.bytes;
}

void WireVote::fail(const std::string& why) {
  put_text(error, why);
  put_text(host, own_host_name());
  bytes = -1;
}

std::vector<WireVote> exchange_votes(const WireVote& mine, Communicator& comm, Stream& stream) {
  return gather_values(std::vector<WireVote>{mine}, comm, stream);
}

std::string first_failure(const std::vector<WireVote>& all) {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].bytes < 0)
      return fmt::format("rank {} on {}: {}", rank, all[rank].host.data(), all[rank].error.data());
  }
  return "";
}

std::vector<FileVote> votes_of(const std::vector<WireVote>& all, int64_t epoch) {
  std::vector<FileVote> votes;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    votes.push_back({.name = all[rank].name.data(),
                     .rank = static_cast<int>(rank),
                     .epoch = epoch,
                     .bytes = all[rank].bytes,
                     .digest = all[rank].digest.data()});
  }
  return votes;
}

void agree_on_success(const std::string& what, const std::string& error, Communicator& comm,
                      Stream& stream) {
  WireVote mine;
  mine.bytes = 0;
  if (!error.empty()) mine.fail(error);
  const std::string failure = first_failure(exchange_votes(mine, comm, stream));
  if (failure.empty()) return;
  const std::string message = fmt::format("{}: {}", what, failure);
  if (error.empty()) throw PeerIoError(message);
  throw IoError(message);
}

WireText to_wire_text(const std::string& text) {
  WireText out{};
  put_text(out, text);
  return out;
}

WireTrace to_wire(const RejectedTag& trace) {
  WireTrace out{.name = {},
                .step = trace.step.value_or(-1),
                .begun_in = trace.begun_in.value_or(-1),
                .why = to_wire_text(trace.why)};
  put_text(out.name, trace.name);
  return out;
}

RejectedTag from_wire(const WireTrace& wire) {
  const auto known = [](int64_t value) { return value < 0 ? std::nullopt : std::optional(value); };
  return {wire.name.data(), known(wire.step), wire.why.data(), known(wire.begun_in)};
}

}  // namespace ds
