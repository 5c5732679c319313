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

void WireVote::refuse(const std::string& why) {
  failure.set(why);
  bytes = -2;
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

std::string first_refusal(const std::vector<WireVote>& all) {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].bytes == -2) return in_words(rank, all[rank].failure);
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

WireAncestors to_wire(const std::vector<Ancestor>& after) {
  WireAncestors out{.line = {}, .count = static_cast<int64_t>(after.size())};
  DS_CHECK(after.size() <= out.line.size(), "a line after {} others, at most {}", after.size(),
           out.line.size());
  std::ranges::copy(after, out.line.begin());
  return out;
}

std::vector<Ancestor> from_wire(const WireAncestors& wire) {
  return {wire.line.begin(), wire.line.begin() + wire.count};
}

WireTag to_wire(const CommittedTag& tag) {
  WireTag out{.name = {},
              .skipped = tag.skipped,
              .named = tag.named,
              .step = tag.step,
              .epoch = tag.epoch,
              .begun_in = tag.begun_in,
              .after = to_wire(tag.after)};
  put_text(out.name, tag.tag);
  return out;
}

CommittedTag from_wire(const WireTag& wire) {
  return {.tag = wire.name.data(),
          .step = wire.step,
          .epoch = wire.epoch,
          .begun_in = wire.begun_in,
          .after = from_wire(wire.after),
          .skipped = wire.skipped,
          .named = wire.named};
}

WireTrace to_wire(const RejectedTag& trace) {
  WireTrace out{.name = {},
                .step = trace.step.value_or(-1),
                .begun_in = trace.begun_in.value_or(-1),
                .why = to_wire_text(trace.why),
                .after = to_wire(trace.after)};
  put_text(out.name, trace.name);
  return out;
}

RejectedTag from_wire(const WireTrace& wire) {
  const auto known = [](int64_t value) { return value < 0 ? std::nullopt : std::optional(value); };
  return {wire.name.data(), known(wire.step), wire.why.data(), known(wire.begun_in),
          from_wire(wire.after)};
}

}  // namespace ds
