#include "comm/tcp/rendezvous.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <list>

#include "comm/shm/segment.h"
#include "comm/tcp/address.h"
#include "comm/tcp/handshake.h"
#include "comm/tcp/link_pulse.h"
#include "core/values/index.h"

namespace ds::detail {
namespace {

using SteadyClock = std::chrono::steady_clock;
using TimePoint = SteadyClock::time_point;

constexpr std::chrono::milliseconds kRedialPause{100};
constexpr size_t kStrangers = 64;  // unproven connections at a time, beside the ranks still to come
constexpr int kLoggedStrangers = 20;

// One connection during its handshake.
class Conversation {
 public:
  enum class State : uint8_t { kTalking, kProven, kWelcome, kOver };

  Conversation(Fd socket, TcpHandshake handshake, TimePoint until)
      : until_(until), socket_(std::move(socket)), handshake_(std::move(handshake)) {}

  // Sends and receives what it can.
  State advance() {
    answered_ = answered_ || is_connected();
    take_output();
    while (state() == State::kTalking && handshake_.wanted() != 0) {
      std::array<std::byte, 256> bytes;
      const size_t most = std::min(bytes.size(), handshake_.wanted());
      const ssize_t got = recv(socket_.get(), bytes.data(), most, MSG_DONTWAIT);
      if (got > 0) {
        handshake_.feed({bytes.data(), to_size(got)});
        take_output();
      } else if (got == 0) {
        end("it closed the connection");
      } else if (errno == EAGAIN || errno == ENOTCONN) {
        break;
      } else if (errno != EINTR) {
        end_by_error("recv");
      }
    }
    flush();
    return state();
  }
  void welcome() {
    handshake_.welcome();
    take_output();
    flush();
  }

  State state() const {
    if (!ended_.empty()) return State::kOver;
    switch (handshake_.state()) {
      case TcpHandshake::State::kTalking:
        return State::kTalking;
      case TcpHandshake::State::kProven:
        return State::kProven;
      case TcpHandshake::State::kWelcome:
        return output_.empty() ? State::kWelcome : State::kTalking;
      default:
        return State::kOver;
    }
  }
  std::string reason() const { return ended_.empty() ? handshake_.reason() : ended_; }
  void end(const std::string& reason) { ended_ = reason; }
  int peer() const { return handshake_.peer(); }
  TimePoint until() const { return until_; }
  pollfd watch() const {
    return {socket_.get(), static_cast<short>(output_.empty() ? POLLIN : POLLIN | POLLOUT), 0};
  }
  // Its host has answered, if only that nobody listens there.
  bool answered() const { return answered_; }
  Fd take_socket() { return std::move(socket_); }
  std::string remote() const {
    try {
      return peer_address(socket_.get()).endpoint();
    } catch (const CommError&) {
      return "an unknown address";
    }
  }

 private:
  void take_output() {
    const std::vector<std::byte> more = handshake_.take_output();
    output_.insert(output_.end(), more.begin(), more.end());
  }
  void flush() {
    while (ended_.empty() && !output_.empty()) {
      const ssize_t sent = send(socket_.get(), output_.data(), output_.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        output_.erase(output_.begin(), output_.begin() + sent);
      } else if (errno == EAGAIN) {
        return;
      } else if (errno != EINTR) {
        end_by_error("send");
      }
    }
  }

  bool is_connected() const {
    sockaddr_storage peer;
    socklen_t bytes = sizeof(peer);
    return getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&peer), &bytes) == 0;
  }
  void end_by_error(const char* call) {
    answered_ = answered_ || errno == ECONNREFUSED;
    end(system_error(call));
  }

  const TimePoint until_;
  Fd socket_;
  bool answered_ = false;
  TcpHandshake handshake_;
  std::vector<std::byte> output_;
  std::string ended_;
};

void set_option(const Fd& socket, int level, int option, int value) {
  if (setsockopt(socket.get(), level, option, &value, sizeof(value)) != 0) {
    throw CommError(system_error("setsockopt"));
  }
}

// A peer whose host is gone answers no probe: noticed after 25 s of idleness, or when what we sent
// is not acknowledged for twice the longest wait.
void prepare(const Fd& socket, std::chrono::milliseconds timeout) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  const int64_t unacknowledged = std::clamp<int64_t>(2 * timeout.count(), 30'000, 86'400'000);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(unacknowledged));
}

class Rendezvous {
 public:
  Rendezvous(TcpListener listener, const TcpWorld& world, const TcpOptions& options)
      : listener_(std::move(listener)),
        world_(world),
        party_{world.rank, world.size, world.epoch, world.secret},
        options_(options),
        deadline_(SteadyClock::now() + std::min(options.timeout, options.rendezvous)),
        links_(to_size(world.size)) {
    for (int r = 0; r < world.rank; ++r) {
      dials_.push_back({r, parse_data_endpoint(nth(world.endpoints, r)), nullptr, {}, ""});
    }
  }

  std::vector<Fd> run() {
    while (true) {
      const TimePoint now = SteadyClock::now();
      for (Dial& dial : dials_) advance(dial, now);
      report_unreachable(now);
      accept_all(now);
      advance_visitors(now);
      if (missing() == 0) break;
      if (now >= deadline_) give_up();
      wait(now);
    }
    for (const Fd& link : links_) {
      if (link.valid()) prepare(link, options_.timeout);
    }
    if (options_.board) options_.board->post({});
    return std::move(links_);
  }

 private:
  struct Dial {
    int to;
    SocketAddress address;
    std::unique_ptr<Conversation> conversation;  // null: to be dialled at `again`, or done
    TimePoint again;
    std::string trouble;  // of the last attempt
    // Since then nothing of its host was heard.
    std::optional<TimePoint> unreachable_since = std::nullopt;
  };

  bool linked(int rank) const { return nth(links_, rank).valid(); }
  int missing() const {
    const auto there =
        std::count_if(links_.begin(), links_.end(), [](const Fd& f) { return f.valid(); });
    return world_.size - 1 - static_cast<int>(there);
  }
  size_t to_come() const {
    size_t count = 0;
    for (int r = world_.rank + 1; r < world_.size; ++r) count += linked(r) ? 0 : 1;
    return count;
  }

  void advance(Dial& dial, TimePoint now) {
    if (linked(dial.to)) return;
    if (!dial.conversation && now >= dial.again) start(dial, now);
    if (!dial.conversation) return note_answer(dial, now);
    const Conversation::State state = dial.conversation->advance();
    note_answer(dial, now);
    if (state == Conversation::State::kWelcome) {
      nth(links_, dial.to) = dial.conversation->take_socket();
      dial.conversation.reset();
    } else if (state == Conversation::State::kOver || now >= dial.conversation->until()) {
      dial.trouble =
          state == Conversation::State::kOver ? dial.conversation->reason() : "no answer";
      dial.conversation.reset();
      dial.again = now + kRedialPause;
    }
  }

  // A host that is there answers the first packet, be it by a refusal.
  void note_answer(Dial& dial, TimePoint now) {
    if (dial.conversation && dial.conversation->answered()) {
      dial.unreachable_since.reset();
    } else if (!dial.unreachable_since) {
      dial.unreachable_since = now;
    }
  }

  void report_unreachable(TimePoint now) {
    if (!options_.board) return;
    std::vector<LinkTrouble> troubles;
    for (Dial& dial : dials_) {
      if (linked(dial.to)) continue;
      if (dial.unreachable_since && now - *dial.unreachable_since >= LinkPulse::kSilence) {
        troubles.push_back(
            {dial.to, false, dial.trouble.empty() ? "no answer to any connection" : dial.trouble});
      }
    }
    options_.board->post(std::move(troubles));
  }

  void start(Dial& dial, TimePoint now) {
    Fd socket(::socket(dial.address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) throw CommError(system_error("socket"));
    if (connect(socket.get(), dial.address.get(), dial.address.bytes) != 0 &&
        errno != EINPROGRESS) {
      dial.trouble = system_error("connect");
      dial.again = now + kRedialPause;
      return;
    }
    dial.conversation = std::make_unique<Conversation>(
        std::move(socket), TcpHandshake::dial(party_, dial.to, random_challenge()),
        now + options_.patience);
  }

  void accept_all(TimePoint now) {
    while (to_come() != 0) {
      Fd socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.valid()) {
        // Also a connection that broke before it was accepted: nobody's fault and no reason to
        // stop.
        if (errno == EMFILE || errno == ENFILE || errno == EBADF) {
          throw CommError(system_error("accept"));
        }
        return;
      }
      if (visitors_.size() >= kStrangers + to_come()) {
        drop(visitors_.front(), "too many connections");
        visitors_.pop_front();
      }
      visitors_.emplace_back(std::move(socket), TcpHandshake::accept(party_, random_challenge()),
                             now + options_.patience);
    }
  }

  void advance_visitors(TimePoint now) {
    for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
      bool gone = false;
      Conversation::State state = visitor->advance();
      if (state == Conversation::State::kProven) {
        if (linked(visitor->peer())) {
          visitor->end(fmt::format("rank {} is connected already", visitor->peer()));
        } else {
          visitor->welcome();
        }
        state = visitor->state();
      }
      if (state == Conversation::State::kWelcome) {
        nth(links_, visitor->peer()) = visitor->take_socket();
        gone = true;
      } else if (state == Conversation::State::kOver || now >= visitor->until()) {
        drop(*visitor,
             state == Conversation::State::kOver ? visitor->reason() : "it proved nothing in time");
        gone = true;
      }
      visitor = gone ? visitors_.erase(visitor) : std::next(visitor);
    }
  }

  void drop(const Conversation& visitor, const std::string& reason) {
    if (++dropped_ > kLoggedStrangers) return;
    spdlog::warn("data listener {}: dropped a connection from {}: {}{}", listener_.endpoint(),
                 visitor.remote(), reason,
                 dropped_ == kLoggedStrangers ? " (further ones are not logged)" : "");
  }

  void wait(TimePoint now) const {
    std::vector<pollfd> watched;
    TimePoint until = deadline_;
    if (to_come() != 0) watched.push_back({listener_.fd(), POLLIN, 0});
    for (const Dial& dial : dials_) {
      if (dial.conversation) {
        watched.push_back(dial.conversation->watch());
        until = std::min(until, dial.conversation->until());
      } else if (!linked(dial.to)) {
        until = std::min(until, dial.again);
      }
    }
    for (const Conversation& visitor : visitors_) {
      watched.push_back(visitor.watch());
      until = std::min(until, visitor.until());
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
    poll(watched.data(), watched.size(),
         static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000)));
  }

  [[noreturn]] void give_up() const {
    std::string names;
    const auto add = [&](int rank, const std::string& trouble) {
      names += fmt::format("{}rank {} at {}{}{}", names.empty() ? "" : ", ", rank,
                           nth(world_.endpoints, rank), trouble.empty() ? "" : ": ", trouble);
    };
    for (const Dial& dial : dials_) {
      if (!linked(dial.to)) add(dial.to, dial.trouble);
    }
    for (int r = world_.rank + 1; r < world_.size; ++r) {
      if (!linked(r)) add(r, "");
    }
    throw CommError(
        fmt::format("open_tcp_group: rank {} of {}, listening on {}: timed out waiting for {}",
                    world_.rank, world_.size, listener_.endpoint(), names));
  }

  const TcpListener listener_;
  const TcpWorld& world_;
  const HandshakeParty party_;
  const TcpOptions options_;
  const TimePoint deadline_;
  std::vector<Fd> links_;
  std::vector<Dial> dials_;
  std::list<Conversation> visitors_;
  int dropped_ = 0;
};

}  // namespace

std::vector<Fd> meet_peers(TcpListener listener, const TcpWorld& world, const TcpOptions& options) {
  return Rendezvous(std::move(listener), world, options).run();
}

}  // namespace ds::detail
