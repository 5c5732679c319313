#include "checkpoint/hosts/agreement.h"

namespace ds {

void WireVote::vote(const FileVote& vote) {
  put_text(name, vote.name);
  put_text(digest, vote.digest);
  bytes = vote.bytes;
}

void WireVote::fail(const std::string& why) {
  failure.set(why);
  bytes = -1;
}

std::vector<WireVote> exchange_votes(const WireVote& mine, HostExchange& exchange) {
  return exchange.gather(std::vector{mine});
}

std::string first_failure(const std::vector<WireVote>& all) {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].bytes < 0) return in_words(rank, all[rank].failure);
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
