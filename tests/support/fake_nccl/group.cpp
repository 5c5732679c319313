#include "tests/support/fake_nccl/group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/support/fake_nccl/reduce.h"

namespace ds::fake_nccl {
namespace {

std::atomic<int> hanging_now = 0;

Signature signature_of(const Collective& of) {
  return {.op = static_cast<int>(of.kind),
          .type = static_cast<int>(of.type),
          .reduce = static_cast<int>(of.reduce),
          .root = of.root,
          .count = of.count};
}

}  // namespace

int hanging() { return hanging_now; }

Group::Group(const std::string& name, int size, int rank, Faults faults)
    : size_(size), rank_(rank), faults_(faults), segment_(name, size) {
  if (is_about_me() && faults_.init_hangs) return;
  segment_.place(rank_).arrived = 1;
}

bool Group::all(const std::function<bool(const Place&)>& is_so) const {
  for (int rank = 0; rank < size_; ++rank) {
    if (!is_so(segment_.place(rank))) return false;
  }
  return true;
}

NcclResult Group::state() {
  if (error_ != NcclResult::kSuccess) return error_;
  if (!met_) {
    if (is_about_me() && faults_.init_fails) error_ = NcclResult::kSystemError;
    met_ = all([](const Place& place) { return place.arrived != 0; });
    if (!met_) return NcclResult::kInProgress;
    segment_.forget_name();
  }
  if (split_into_ == nullptr) return error_;
  if (!all([&](const Place& place) { return place.splits >= splits_; })) {
    return NcclResult::kInProgress;
  }
  const auto request = [&](int rank) { return segment_.place(rank).split[splits_ % 2]; };
  std::vector<int> members;
  for (int rank = 0; rank < size_; ++rank) {
    if (request(rank).color == request(rank_).color) members.push_back(rank);
  }
  std::ranges::stable_sort(members, {}, [&](int rank) { return request(rank).key; });
  const auto me = std::ranges::find(members, rank_) - members.begin();
  const std::string name =
      segment_.name() + "-" + std::to_string(splits_) + "-" + std::to_string(request(rank_).color);
  auto part = std::make_shared<Group>(name, static_cast<int>(members.size()), static_cast<int>(me),
                                      faults_);
  std::atomic_ref into(*split_into_);
  into = new NcclHandle{std::move(part)};
  split_into_ = nullptr;
  return error_;
}

void Group::begin_split(int color, int key, NcclHandle** into) {
  *into = nullptr;
  split_into_ = into;
  Place& place = segment_.place(rank_);
  ++splits_;
  place.split[splits_ % 2] = {color, key};
  place.splits = splits_;
}

bool Group::until(const std::function<bool()>& is_so) const {
  while (!is_so()) {
    if (ended_) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

void Group::hang() const {
  ++hanging_now;
  until([] { return false; });
  --hanging_now;
}

bool Group::plays_fault(int call) {
  if (!is_about_me()) return false;
  if (faults_.fails_in_call == call) error_ = NcclResult::kRemoteError;
  if (faults_.fails_in_call != call && faults_.hangs_in_call != call) return false;
  hang();
  return true;
}

// Everybody has written what it shows when `take` is called. The places of a round are written
// again two rounds later, which a rank reaches when all others are through with this one.
bool Group::round(const Collective& collective, const Take& take) {
  Place& mine = segment_.place(rank_);
  const uint32_t now = ++rounds_;
  mine.signature[now % 2] = signature_of(collective);
  mine.rounds = now;
  if (!until([&] { return all([&](const Place& place) { return place.rounds >= now; }); })) {
    return false;
  }
  if (!all([&](const Place& place) {
        return place.signature[now % 2] == mine.signature[now % 2];
      })) {
    error_ = NcclResult::kInvalidUsage;
    hang();
    return false;
  }
  take(now);
  return true;
}

void Group::run(int call, const Collective& collective) {
  if (plays_fault(call)) return;
  using Kind = Collective::Kind;
  const size_t width = width_of(collective.type);
  const bool shows_slices = collective.kind == Kind::kReduceScatter;
  const size_t slices = shows_slices ? static_cast<size_t>(size_) : 1;
  const size_t most = kShownBytes / width / slices;  // elements of a slice in one round
  for (size_t begin = 0; begin < collective.count; begin += most) {
    const size_t count = std::min(most, collective.count - begin);
    std::byte* const show = segment_.shown(rank_, rounds_ + 1);
    for (size_t slice = 0; slice < slices; ++slice) {
      if (collective.kind == Kind::kBroadcast && collective.root != rank_) break;
      std::memcpy(show + slice * count * width,
                  collective.from + (slice * collective.count + begin) * width, count * width);
    }
    const bool went_on = round(collective, [&](uint32_t now) {
      std::byte* const to = collective.to + begin * width;
      const size_t mine = shows_slices ? static_cast<size_t>(rank_) * count * width : 0;
      if (collective.kind == Kind::kBroadcast) {
        std::memcpy(to, segment_.shown(collective.root, now), count * width);
      } else if (collective.kind == Kind::kAllGather) {
        for (int rank = 0; rank < size_; ++rank) {
          std::memcpy(to + static_cast<size_t>(rank) * collective.count * width,
                      segment_.shown(rank, now), count * width);
        }
      } else {
        std::vector<const std::byte*> inputs;
        for (int rank = 0; rank < size_; ++rank) {
          inputs.push_back(segment_.shown(rank, now) + mine);
        }
        reduce(collective.type, collective.reduce, inputs, to, count);
      }
    });
    if (!went_on) return;
  }
}

// As much as the pipe holds, or has; whether that was anything.
bool Group::move(const Message& message, size_t& done) const {
  const bool sends = message.way == Message::Way::kSend;
  Pipe& pipe = sends ? segment_.pipe(rank_, message.peer) : segment_.pipe(message.peer, rank_);
  const uint64_t in_it = pipe.written - pipe.read;
  const uint64_t at = (sends ? pipe.written : pipe.read) % kPipeBytes;
  const size_t bytes =
      std::min({message.bytes - done, sends ? kPipeBytes - in_it : in_it, kPipeBytes - at});
  if (sends) {
    std::memcpy(&pipe.ring[at], message.data + done, bytes);
    pipe.written += bytes;
  } else {
    std::memcpy(message.data + done, &pipe.ring[at], bytes);
    pipe.read += bytes;
  }
  done += bytes;
  return bytes > 0;
}

void Group::run(int call, std::vector<Message> messages) {
  if (plays_fault(call)) return;
  std::vector<size_t> done(messages.size(), 0);
  // Messages between the same two, the same way, follow each other.
  const auto waits = [&](size_t which) {
    for (size_t before = 0; before < which; ++before) {
      if (messages[before].peer == messages[which].peer &&
          messages[before].way == messages[which].way && done[before] < messages[before].bytes) {
        return true;
      }
    }
    return false;
  };
  until([&] {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t i = 0; i < messages.size(); ++i) {
        if (done[i] < messages[i].bytes && !waits(i) && move(messages[i], done[i])) moved = true;
      }
    }
    for (size_t i = 0; i < messages.size(); ++i) {
      if (done[i] < messages[i].bytes) return false;
    }
    return true;
  });
}

}  // namespace ds::fake_nccl
