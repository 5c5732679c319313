#include "comm/tcp/wire.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "comm/shm/segment.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::detail {
namespace {

using SteadyClock = std::chrono::steady_clock;

bool matches(const Frame& a, const Frame& b) {
  return a.kind == b.kind && a.sequence == b.sequence && a.dtype == b.dtype && a.numel == b.numel &&
         a.bytes == b.bytes;
}

size_t stream_of(FrameKind kind) {
  return to_size(kind == FrameKind::kMessage ? TcpStream::kMessages : TcpStream::kCollective);
}

void refuse_frame(ReceiveTicket& ticket, const Frame& frame) {
  ticket.wrong = true;
  ticket.other = frame;
  ticket.finish();
}

// Marks the one thread that polls; the others go on when it is done, however that ends.
class Polling {
 public:
  Polling(bool& flag, std::condition_variable& changed) : flag_(flag), changed_(changed) {
    flag_ = true;
  }
  ~Polling() {
    flag_ = false;
    changed_.notify_all();
  }
  Polling(const Polling&) = delete;  // marks one stay
  Polling& operator=(const Polling&) = delete;

 private:
  bool& flag_;
  std::condition_variable& changed_;
};

bool comes_from(const TcpGroupState& group, const TcpGroupState& ancestor) {
  for (const TcpGroupState* g = &group; g != nullptr; g = g->parent.get()) {
    if (g == &ancestor) return true;
  }
  return false;
}

}  // namespace

TcpWire::TcpWire(std::vector<Fd> sockets, std::chrono::milliseconds timeout,
                 std::shared_ptr<LinkBoard> board)
    : timeout_(timeout),
      board_(std::move(board)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      pulses_(sockets.size()),
      arriving_(sockets.size()) {
  if (!wake_.valid()) throw CommError(system_error("eventfd"));
  FrameSink& sink = *this;
  for (size_t r = 0; r < sockets.size(); ++r) {
    const bool peer = sockets[r].valid();
    links_.push_back(
        peer ? std::make_unique<TcpLink>(std::move(sockets[r]), static_cast<int>(r), sink)
             : nullptr);
  }
}

TcpWire::~TcpWire() { drain(); }

// After a failure nobody is owed the rest, but the reason should still get out.
void TcpWire::drain() {
  constexpr std::chrono::milliseconds kFarewell{500};
  constexpr std::chrono::milliseconds kLook{1};
  auto held = lock();
  const auto deadline = SteadyClock::now() + (failed_ ? std::min(kFarewell, timeout_) : timeout_);
  const auto delivered = [](const auto& each) { return !each || each->delivered(); };
  while (!std::all_of(links_.begin(), links_.end(), delivered) && SteadyClock::now() < deadline) {
    flush();
    progress(held, SteadyClock::now() + kLook);
  }
  for (const auto& each : links_) {
    if (each) each->shut_writing();
  }
}

TcpLink& TcpWire::link(const TcpGroupState& group, int member) const {
  return *nth(links_, nth(group.members, member));
}

std::shared_ptr<TcpGroupState> TcpWire::group_of(uint64_t id) {
  if (over_.contains(id)) return nullptr;
  auto& group = groups_[id];
  if (!group) {
    group = std::make_shared<TcpGroupState>();
    group->id = id;
  }
  return group;
}

std::shared_ptr<TcpGroupState> TcpWire::make_group(uint64_t id, std::vector<int> members, int rank,
                                                   std::shared_ptr<const TcpGroupState> parent) {
  auto group = group_of(id);
  DS_CHECK(group && group->members.empty(), "split: group {} exists already", id);
  group->members = std::move(members);
  group->rank = rank;
  group->parent = std::move(parent);
  return group;
}

void TcpWire::leave_group(TcpGroupState& group) {
  for (int member = 0; member < narrow<int>(group.members.size()); ++member) {
    if (member == group.rank) continue;
    Frame frame;
    frame.kind = FrameKind::kLeft;
    send_copy(group, member, frame, nullptr);
  }
  flush();
  over_.insert(group.id);
  groups_.erase(group.id);
}

std::vector<TcpGroupState*> TcpWire::mark_failed(const TcpGroupState& group,
                                                 const std::string& text, uint64_t from) {
  failed_ = true;
  std::vector<TcpGroupState*> marked;
  for (auto& [id, each] : groups_) {
    if (!each->failure.empty() || !comes_from(*each, group)) continue;
    each->failure = text;
    each->failed_from = each.get() == &group ? from : 0;
    marked.push_back(each.get());
  }
  return marked;
}

void TcpWire::fail_group(TcpGroupState& group, const std::string& text, uint64_t from) {
  constexpr size_t kMostText = 2000;
  const std::string shortened = text.substr(0, kMostText);
  for (TcpGroupState* each : mark_failed(group, text, from)) {
    Frame frame;
    frame.kind = FrameKind::kFailed;
    frame.sequence = each->failed_from;
    frame.bytes = shortened.size();
    for (int member = 0; member < narrow<int>(each->members.size()); ++member) {
      if (member == each->rank) continue;
      send_copy(*each, member, frame, reinterpret_cast<const std::byte*>(shortened.data()));
    }
  }
  flush();
  wake();
  changed_.notify_all();
}

void TcpWire::receive(TcpGroupState& group, TcpStream stream, ReceiveTicket& ticket) {
  const auto s = to_size(stream);
  TcpGroupState::Peer& from = group.peer(ticket.peer);
  auto& arrived = from.arrived[s];
  // A claimed one is the last that came: what follows it is not there yet.
  if (arrived.empty() || arrived.front()->claim != nullptr) {
    from.expected[s].push_back(&ticket);
    return;
  }
  ArrivedFrame& kept = *arrived.front();
  if (!matches(kept.frame, ticket.frame)) return refuse_frame(ticket, kept.frame);
  kept.claim = &ticket;
  if (kept.complete) hand_over(from, s, kept);
}

void TcpWire::hand_over(TcpGroupState::Peer& from, size_t stream, ArrivedFrame& kept) {
  if (kept.frame.bytes != 0) std::memcpy(kept.claim->data, kept.data.get(), kept.frame.bytes);
  kept.claim->finish();
  from.arrived[stream].pop_front();
}

void TcpWire::send(TcpGroupState& group, int to, const Frame& frame, const std::byte* data,
                   SendTicket& ticket) {
  Frame addressed = frame;
  addressed.group = group.id;
  link(group, to).enqueue(addressed, data, &ticket);
}

void TcpWire::send_copy(TcpGroupState& group, int to, const Frame& frame, const std::byte* data) {
  Frame addressed = frame;
  addressed.group = group.id;
  link(group, to).enqueue_copy(addressed, data);
}

void TcpWire::cancel(TcpGroupState& group, const ReceiveTicket& ticket) {
  const int world_rank = nth(group.members, ticket.peer);
  for (auto& expected : group.peer(ticket.peer).expected) std::erase(expected, &ticket);
  for (auto& arrived : group.peer(ticket.peer).arrived) {
    for (auto& kept : arrived) {
      if (kept->claim == &ticket) kept->claim = nullptr;
    }
  }
  Arriving& arriving = nth(arriving_, world_rank);
  if (arriving.ticket == &ticket) {
    arriving.ticket = nullptr;
    link(group, ticket.peer).drop_payload();
  }
}

void TcpWire::cancel(TcpGroupState& group, const SendTicket& ticket) {
  link(group, ticket.peer).disown(&ticket);
}

std::byte* TcpWire::begin_frame(int peer, const Frame& frame) {
  Arriving& arriving = nth(arriving_, peer);
  arriving = {frame, group_of(frame.group), nullptr, nullptr, ""};
  if (!arriving.group) return nullptr;
  TcpGroupState::Peer& from = arriving.group->peers[peer];
  switch (frame.kind) {
    case FrameKind::kData:
    case FrameKind::kMessage:
      return begin_message(peer, frame, arriving);
    case FrameKind::kTaken:
      ++from.messages_taken;
      break;
    case FrameKind::kLeft:
      from.left = true;
      break;
    case FrameKind::kProbe:
      break;
    case FrameKind::kFailed:
      arriving.reason.resize(frame.bytes);
      return reinterpret_cast<std::byte*>(arriving.reason.data());
  }
  return nullptr;
}

std::byte* TcpWire::begin_message(int peer, const Frame& frame, Arriving& arriving) {
  const bool still_wanted =
      frame.kind == FrameKind::kData && frame.sequence < arriving.group->failed_from;
  if (!arriving.group->failure.empty() && !still_wanted) return nullptr;
  TcpGroupState::Peer& from = arriving.group->peers[peer];
  const size_t stream = stream_of(frame.kind);
  auto& expected = from.expected[stream];
  if (!expected.empty()) {
    ReceiveTicket& ticket = *expected.front();
    expected.pop_front();
    if (!matches(frame, ticket.frame)) {
      refuse_frame(ticket, frame);
      return nullptr;
    }
    arriving.ticket = &ticket;
    return ticket.data;
  }
  auto kept = std::make_unique<ArrivedFrame>();
  kept->frame = frame;
  kept->data.reset(new (std::nothrow) std::byte[frame.bytes]);
  if (!kept->data) {
    nth(links_, peer)->close(fmt::format("no memory for a message of {} bytes", frame.bytes));
    return nullptr;
  }
  arriving.kept = kept.get();
  from.arrived[stream].push_back(std::move(kept));
  return arriving.kept->data.get();
}

void TcpWire::end_frame(int peer) {
  Arriving& arriving = nth(arriving_, peer);
  if (arriving.ticket != nullptr) arriving.ticket->finish();
  if (arriving.kept != nullptr) {
    arriving.kept->complete = true;
    if (arriving.kept->claim != nullptr) {
      hand_over(arriving.group->peers[peer], stream_of(arriving.frame.kind), *arriving.kept);
    }
  }
  if (arriving.frame.kind == FrameKind::kFailed && arriving.group) {
    mark_failed(*arriving.group, arriving.reason, arriving.frame.sequence);
  }
  arriving = {};
}

void TcpWire::flush() {
  bool news = false;
  for (const auto& each : links_) {
    if (!each || !each->wants_write()) continue;
    each->write_some();
    news = true;
  }
  if (!news || !polling_) return;
  // The polling thread knows neither what is left to send nor what is done.
  wake();
  changed_.notify_all();
}

void TcpWire::wake() const noexcept { eventfd_write(wake_.get(), 1); }

void TcpWire::progress(std::unique_lock<std::mutex>& lock, TimePoint until) {
  if (polling_) {
    changed_.wait_until(lock, until);
    return;
  }
  const Polling polling(polling_, changed_);
  move_bytes(lock, until);
}

void TcpWire::move_bytes(std::unique_lock<std::mutex>& lock, TimePoint until) {
  watched_.clear();
  watched_.push_back({wake_.get(), POLLIN, 0});
  for (const auto& each : links_) {
    const bool open = each && !each->closed();
    const int events = open && each->wants_write() ? POLLIN | POLLOUT : POLLIN;
    watched_.push_back({open ? each->fd() : -1, static_cast<short>(events), 0});
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock::now());
  constexpr int64_t kLongest = 60'000;
  const auto wait_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, kLongest));
  lock.unlock();
  const int ready = poll(watched_.data(), watched_.size(), wait_ms);
  lock.lock();
  if (ready <= 0) return;
  if (watched_[0].revents != 0) {
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
  }
  for (size_t r = 0; r < links_.size(); ++r) {
    const short events = watched_[r + 1].revents;
    if (events == 0) continue;
    // Reading first: it also tells what an error was.
    if ((events & ~POLLOUT) != 0) links_[r]->read_some();
    if ((events & POLLOUT) != 0) links_[r]->write_some();
  }
}

void TcpWire::probe(const TcpGroupState& group) {
  Frame frame;
  frame.kind = FrameKind::kProbe;
  frame.group = group.id;
  for (const auto& each : links_) {
    if (each && !each->closed()) each->enqueue_copy(frame, nullptr);
  }
  flush();
}

void TcpWire::feel_pulses() {
  if (!board_) return;
  const TimePoint now = SteadyClock::now();
  std::vector<LinkTrouble> troubles;
  for (size_t r = 0; r < links_.size(); ++r) {
    if (!links_[r]) continue;
    const auto peer = static_cast<int>(r);
    if (links_[r]->broken()) {
      troubles.push_back({peer, false, links_[r]->why_closed()});
    } else if (const std::optional<TcpHealth> health = tcp_health(links_[r]->fd())) {
      pulses_[r].sample(now, *health);
      if (auto trouble = pulses_[r].trouble(now, peer)) troubles.push_back(*std::move(trouble));
    }
  }
  board_->post(std::move(troubles));
}

std::optional<std::string> TcpWire::gone(const TcpGroupState& group, int member) const {
  const int world_rank = nth(group.members, member);
  const auto known = group.peers.find(world_rank);
  if (known != group.peers.end() && known->second.left) return "left the group";
  const TcpLink& to = link(group, member);
  if (to.closed()) return fmt::format("died: {}", to.why_closed());
  return std::nullopt;
}

uint64_t TcpWire::bytes_moved(const TcpGroupState& group, int member) const {
  return link(group, member).bytes_moved();
}

}  // namespace ds::detail
