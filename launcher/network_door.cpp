#include "launcher/network_door.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cstring>

#include "core/error.h"
#include "core/socket_address.h"
#include "launcher/peer_dial.h"
#include "launcher/port_holder.h"

namespace ds {
namespace {

constexpr int kBacklog = 1024;

Time steady_time() { return std::chrono::steady_clock::now().time_since_epoch(); }

SocketAddress interface_address(const std::string& text, int port) {
  const auto refuse = [&](const char* why) {
    throw UsageError(
        fmt::format("coordinator address '{}': {}; give the literal IP address of one "
                    "interface of this machine, such as 10.0.0.1",
                    text, why));
  };
  if (port < 0 || port > 65535) refuse("a port lies between 0 and 65535");
  const std::optional<SocketAddress> address = parse_address(text, port);
  if (!address) {
    refuse("is not a literal address");
  } else if (address->is_wildcard()) {
    refuse("means every interface");
  } else if (address->is_group()) {
    refuse("means many machines");
  } else if (address->is_mapped_v4()) {
    refuse("is an IPv4 address in IPv6 clothes");
  } else if (address->is_link_local()) {
    refuse("is link-local, which other hosts cannot name without an interface");
  }
  return *address;
}

[[noreturn]] void throw_cannot_listen(const SocketAddress& wanted, int error) {
  std::string why = std::strerror(error);
  if (error == EADDRINUSE) {
    why = "the port is taken";
    if (const std::optional<std::string> holder = describe_port_holder(wanted.port())) {
      why += " by " + *holder;
    }
    why += "; end it, or choose another port or none";
  } else if (error == EADDRNOTAVAIL) {
    why = "no interface of this machine has this address";
  }
  throw Error(ExitCode::kClusterUnusable,
              fmt::format("coordinator: cannot listen on {}: {}", wanted.endpoint(), why));
}

Fd listen_on(const SocketAddress& address) {
  Fd listener = listening_socket(address, kBacklog);
  if (!listener.valid()) throw_cannot_listen(address, errno);
  return listener;
}

// gRPC writes a peer as "ipv4:1.2.3.4:5" or "ipv6:%5B::1%5D:5".
std::string guest_name(std::string peer) {
  peer.erase(0, peer.find(':') + 1);
  for (const auto& [from, to] : {std::pair{"%5B", "["}, std::pair{"%5D", "]"}}) {
    if (const size_t at = peer.find(from); at != std::string::npos) {
      peer.replace(at, 3, to);
    }
  }
  return peer;
}

}  // namespace

NetworkDoor::NetworkDoor(const Options& options) : rules_(options.rules) {
  for (const std::string& text : options.addresses) {
    listeners_.push_back(listen_on(interface_address(text, options.port)));
    endpoints_.push_back(own_address(listeners_.back().get()).endpoint());
  }
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

NetworkDoor::~NetworkDoor() { close(); }

void NetworkDoor::close() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) {
    thread_.join();
  }
}

void NetworkDoor::open(Enter enter) {
  enter_ = std::move(enter);
  thread_ = std::thread([this] { serve(); });
}

void NetworkDoor::serve() {
  while (true) {
    const Happened happened = wait();
    std::vector<Fd> admitted;
    {
      const std::scoped_lock lock(mutex_);
      if (closing_) {
        return;
      }
      for (const uint64_t id : happened.ended) {
        cut(id);
      }
      for (const int listener : happened.knocked) {
        admitted.push_back(accept_one(listener));
      }
      for (const uint64_t id : rules_.to_cut(steady_time())) {
        cut(id);
      }
    }
    for (Fd& connection : admitted) {
      if (connection.valid()) {
        enter_(std::move(connection));  // unlocked: what it calls may ask for proven() or refused()
      }
    }
  }
}

// Until something comes, goes or is overdue.
NetworkDoor::Happened NetworkDoor::wait() {
  std::vector<pollfd> watched{{wake_.get(), POLLIN, 0}};
  for (const Fd& listener : listeners_) {
    watched.push_back({listener.get(), POLLIN, 0});
  }
  const size_t first_guest = watched.size();
  std::vector<uint64_t> ids;
  int timeout = -1;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, guest] : guests_) {
      watched.push_back({guest.connection.get(), 0, 0});  // POLLHUP comes unasked
      ids.push_back(id);
    }
    if (const std::optional<Time> deadline = rules_.next_deadline()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - steady_time());
      timeout = static_cast<int>(std::max<int64_t>(0, left.count()));
    }
  }
  poll(watched.data(), watched.size(), timeout);
  eventfd_t count = 0;
  eventfd_read(wake_.get(), &count);
  Happened happened;
  for (size_t i = 1; i < watched.size(); ++i) {
    if (watched[i].revents == 0) {
      continue;
    }
    if (i < first_guest) {
      happened.knocked.push_back(watched[i].fd);
    } else {
      happened.ended.push_back(ids[i - first_guest]);
    }
  }
  return happened;
}

Fd NetworkDoor::accept_one(int listener) {
  SocketAddress from;
  Fd connection(accept4(listener, from.get(), &from.bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection.valid()) {
    if (errno == EMFILE || errno == ENFILE) {
      make_room();
    }
    return {};
  }
  const uint64_t id = next_id_++;
  Fd second(fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
  if (!second.valid() || !rules_.arrived(steady_time(), id, from.host())) {
    return {};
  }
  const int on = 1;
  setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  guests_[id] = {from.endpoint(), std::move(second)};
  return connection;
}

// No descriptors are left: the stranger whose time is over first has to go.
void NetworkDoor::make_room() {
  const std::optional<Time> deadline = rules_.next_deadline();
  if (deadline) {
    cut(rules_.to_cut(*deadline).front());
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // no spinning until a guest goes
  }
}

void NetworkDoor::cut(uint64_t id) {
  const auto guest = guests_.find(id);
  if (guest != guests_.end()) {
    shutdown(guest->second.connection.get(), SHUT_RDWR);  // gRPC sees the end and lets go
    guests_.erase(guest);
    rules_.ended(steady_time(), id);
  }
}

template <class Action>
void NetworkDoor::with_guest(const std::string& peer, const Action& action) {
  const std::string name = guest_name(peer);
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, guest] : guests_) {
    if (guest.name == name) {
      action(id);
    }
  }
}

void NetworkDoor::proven(const std::string& peer) {
  with_guest(peer, [&](uint64_t id) { rules_.proven(id); });
}

void NetworkDoor::refused(const std::string& peer) {
  with_guest(peer, [&](uint64_t id) { rules_.refused(steady_time(), id); });
  eventfd_write(wake_.get(), 1);  // its time is shorter now
}

uint64_t NetworkDoor::failures() const {
  const std::scoped_lock lock(mutex_);
  return rules_.failures();
}

}  // namespace ds
