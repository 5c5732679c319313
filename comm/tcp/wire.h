// All connections of one rank, shared by its groups: brings arriving frames to whoever expects
// them, keeps those that nobody expects yet, and remembers what became of peers and groups. Every
// member function but lock() and the constructor wants the lock held. Whoever waits does the work
// for all: one waiting thread polls and moves everybody's bytes, the others sleep until something
// has happened.
#pragma once

#include <poll.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/tcp/link.h"
#include "comm/tcp/link_pulse.h"
#include "core/values/index.h"

namespace ds::detail {

enum class TcpStream : uint8_t { kCollective, kMessages };

struct ReceiveTicket {
  int peer = 0;  // in the group
  std::byte* data = nullptr;
  Frame frame;  // what is expected
  Frame other;  // what came instead, where `wrong`
  bool wrong = false;
  int* open = nullptr;  // lowered by finish()
  bool done = false;    // the data are there, or something else came
  void finish() {
    done = true;
    --*open;
  }
};

struct ArrivedFrame {
  Frame frame;
  std::unique_ptr<std::byte[]> data;
  bool complete = false;
  ReceiveTicket* claim = nullptr;  // wants it as soon as it is complete
};

// What a rank knows of one of its groups. It may exist before the rank has made the group: a peer
// that was quicker may send already.
struct TcpGroupState {
  struct Peer {
    std::deque<ReceiveTicket*> expected[2];  // by TcpStream
    std::deque<std::unique_ptr<ArrivedFrame>> arrived[2];
    uint64_t messages_sent = 0;
    uint64_t messages_taken = 0;
    bool left = false;
  };

  uint64_t id = 0;
  std::vector<int> members;  // group rank -> world rank; empty until this rank has made the group
  int rank = 0;
  std::shared_ptr<const TcpGroupState> parent;
  std::string failure;  // empty while it works
  // The first collective that the failure ends. Earlier ones still complete: whoever failed later
  // has given all that they need. Sends and receives end at once. 0: everything ends.
  uint64_t failed_from = 0;
  std::map<int, Peer> peers;  // by world rank

  Peer& peer(int group_rank) { return peers[nth(members, group_rank)]; }
};

class TcpWire final : private FrameSink {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // One socket per peer in the order of world ranks, none for ourselves. The board, where there is
  // one, is told of connections that carry nothing.
  TcpWire(std::vector<Fd> sockets, std::chrono::milliseconds timeout,
          std::shared_ptr<LinkBoard> board);
  ~TcpWire() override;               // waits until the peers' hosts have what was sent to them
  TcpWire(const TcpWire&) = delete;  // groups hold references
  TcpWire& operator=(const TcpWire&) = delete;

  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  std::shared_ptr<TcpGroupState> make_group(uint64_t id, std::vector<int> members, int rank,
                                            std::shared_ptr<const TcpGroupState> parent);
  void leave_group(TcpGroupState& group);
  // From this collective on, and at once the groups that were split from it. Tells the members.
  void fail_group(TcpGroupState& group, const std::string& text, uint64_t from);

  void receive(TcpGroupState& group, TcpStream stream, ReceiveTicket& ticket);
  void send(TcpGroupState& group, int to, const Frame& frame, const std::byte* data,
            SendTicket& ticket);
  void send_copy(TcpGroupState& group, int to, const Frame& frame, const std::byte* data);
  void cancel(TcpGroupState& group, const ReceiveTicket& ticket);
  void cancel(TcpGroupState& group, const SendTicket& ticket);

  // Sends what the sockets take, without waiting. To be called before the caller looks whether it
  // still has to wait, for it may end the wait.
  void flush();
  // Until something has happened, or `until`.
  void progress(std::unique_lock<std::mutex>& lock, TimePoint until);

  // For whoever waits without anything moving: sends something that every peer's host has to
  // acknowledge.
  void probe(const TcpGroupState& group);
  // Looks which connections still carry something, and tells the board.
  void feel_pulses();

  // Why nothing more will come from this member; nothing while it may.
  std::optional<std::string> gone(const TcpGroupState& group, int member) const;
  uint64_t bytes_moved(const TcpGroupState& group, int member) const;
  std::chrono::milliseconds timeout() const { return timeout_; }

 private:
  struct Arriving {  // the frame that is arriving from one peer
    Frame frame;
    std::shared_ptr<TcpGroupState> group;  // null: dropped
    ReceiveTicket* ticket = nullptr;
    ArrivedFrame* kept = nullptr;
    std::string reason;
  };

  std::byte* begin_frame(int peer, const Frame& frame) override;
  void end_frame(int peer) override;
  std::byte* begin_message(int peer, const Frame& frame, Arriving& arriving);
  void hand_over(TcpGroupState::Peer& from, size_t stream, ArrivedFrame& kept);
  std::shared_ptr<TcpGroupState> group_of(uint64_t id);
  std::vector<TcpGroupState*> mark_failed(const TcpGroupState& group, const std::string& text,
                                          uint64_t from);
  TcpLink& link(const TcpGroupState& group, int member) const;
  void move_bytes(std::unique_lock<std::mutex>& lock, TimePoint until);
  void wake() const noexcept;
  void drain();

  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<LinkBoard> board_;
  const Fd wake_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  bool polling_ = false;                         // one thread is in poll()
  bool failed_ = false;                          // some group has
  std::vector<std::unique_ptr<TcpLink>> links_;  // by world rank
  std::vector<LinkPulse> pulses_;                // by world rank
  std::vector<Arriving> arriving_;               // by world rank
  std::vector<pollfd> watched_;                  // the polling thread's
  std::map<uint64_t, std::shared_ptr<TcpGroupState>> groups_;
  std::set<uint64_t> over_;  // groups that this rank has left
};

}  // namespace ds::detail
