#include "launcher/control/network_door.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/status/error.h"
#include "core/tasks/task_limits.h"
#include "core/tasks/wake_fd.h"
#include "core/text/socket_address.h"
#include "launcher/control/client_hello.h"
#include "launcher/control/peer_dial.h"
#include "launcher/process/credentials.h"
#include "launcher/process/port_holder.h"

namespace ds {
namespace {

constexpr int kBacklog = 4096;  // the kernel's own limit by default
constexpr int kTakenAtOnce = 128;
constexpr ssize_t kLongestGreeting = 4096;  // a rank's has some 300 bytes
constexpr uint64_t kWakeId = 0;             // then the listeners, then clients

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

// What is accepted inherits that it ends by a reset: the port of a caller that we drop is free at
// once, where otherwise a flood would use up all that its host, which may be a rank's, has for us.
Fd listen_on(const SocketAddress& address) {
  Fd listener = listening_socket(address, kBacklog);
  if (!listener.valid()) throw_cannot_listen(address, errno);
  const linger reset{1, 0};
  setsockopt(listener.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  return listener;
}

void watch(const Fd& epoll, const Fd& fd, uint64_t id, uint32_t events) {
  epoll_event wanted{.events = events, .data = {.u64 = id}};
  const int done = epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd.get(), &wanted);
  DS_CHECK(done == 0, "coordinator: watching for connections: {}", std::strerror(errno));
}

// gRPC writes a peer as "ipv4:1.2.3.4:5" or "ipv6:%5B::1%5D:5".
std::string client_name(std::string peer) {
  peer.erase(0, peer.find(':') + 1);
  for (const auto& [from, to] : {std::pair{"%5B", "["}, std::pair{"%5D", "]"}}) {
    if (const size_t at = peer.find(from); at != std::string::npos) {
      peer.replace(at, 3, to);
    }
  }
  return peer;
}

}  // namespace

NetworkDoor::NetworkDoor(const Options& options)
    : server_name_(options.server_name),
      wake_(make_wake_fd()),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      rules_(options.rules) {
  watch(epoll_, wake_, kWakeId, EPOLLIN);
  for (const std::string& text : options.addresses) {
    listeners_.push_back(listen_on(interface_address(text, options.port)));
    endpoints_.push_back(own_address(listeners_.back().get()).endpoint());
    watch(epoll_, listeners_.back(), listeners_.size(), EPOLLIN);
  }
  next_id_ = listeners_.size() + 1;
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
  thread_ = start_thread("connections of other hosts", [this] { serve(); });
}

void NetworkDoor::serve() {
  std::array<epoll_event, kTakenAtOnce> events{};
  while (true) {
    const int count = epoll_wait(epoll_.get(), events.data(), kTakenAtOnce, timeout_ms());
    std::vector<Fd> admitted;
    {
      const std::scoped_lock lock(mutex_);
      if (closing_) return;
      for (int i = 0; i < count; ++i) take(events[static_cast<size_t>(i)], admitted);
      cut_overdue(admitted);
    }
    for (Fd& connection : admitted) {
      enter_(std::move(connection));  // unlocked: what it calls may ask for proven() or refused()
    }
  }
}

// Until somebody is overdue.
int NetworkDoor::timeout_ms() const {
  const std::scoped_lock lock(mutex_);
  const std::optional<Time> deadline = rules_.next_deadline();
  if (!deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - steady_time());
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

void NetworkDoor::take(const epoll_event& event, std::vector<Fd>& admitted) {
  const uint64_t id = event.data.u64;
  if (id == kWakeId) {
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
  } else if (id <= listeners_.size()) {
    accept_waiting(listeners_[id - 1].get(), admitted);
  } else if (const auto client = clients_.find(id); client != clients_.end()) {
    client->second.passed_on ? cut(id)
                             : look_at(id, event.events, admitted);  // or somebody cut it just now
  }
}

// Many in one go: a queue that is full turns ranks away too, who then try again a second later.
void NetworkDoor::accept_waiting(int listener, std::vector<Fd>& admitted) {
  for (int taken = 0; taken < kTakenAtOnce; ++taken) {
    SocketAddress from;
    Fd connection(accept4(listener, from.get(), &from.bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) {
      if (errno == EMFILE || errno == ENFILE) make_room();
      if (errno == ECONNABORTED) continue;
      return;
    }
    const uint64_t id = next_id_++;
    rules_.arrived(steady_time(), id, from.host());
    const int fd = connection.get();
    clients_[id] = {from.endpoint(), std::move(connection)};
    look_at(id, 0, admitted);
    if (const auto client = clients_.find(id);
        client != clients_.end() && !client->second.passed_on) {
      epoll_event wanted{.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data = {.u64 = id}};
      if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wanted) != 0) cut(id);
    }
  }
}

// Whoever has nothing to say, or not all of a greeting, is kept here.
void NetworkDoor::look_at(uint64_t id, uint32_t events, std::vector<Fd>& admitted) {
  Client& client = clients_.at(id);
  std::array<char, kLongestGreeting> bytes{};
  const ssize_t got =
      recv(client.connection.get(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    cut(id);
    return;
  }
  const ClientHello hello = read_client_hello({bytes.data(), static_cast<size_t>(got)});
  const bool complete = hello.state != ClientHello::State::kIncomplete || got == kLongestGreeting;
  if (complete) {
    greet(id, client, hello.server_name, admitted);
  } else if ((events & EPOLLRDHUP) != 0) {
    cut(id);
  }
}

void NetworkDoor::greet(uint64_t id, Client& client, std::string_view server_name,
                        std::vector<Fd>& admitted) {
  const bool knows = !server_name_.empty() && equal_secrets(server_name, server_name_);
  const auto greeting =
      knows ? ConnectionRules::Greeting::kKnowsTheName : ConnectionRules::Greeting::kDoesNot;
  if (!rules_.greeted(steady_time(), id, greeting)) {
    clients_.erase(id);
    return;
  }
  const int fd = client.connection.get();
  Fd passed(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  epoll_event end_alone{.events = 0, .data = {.u64 = id}};  // EPOLLHUP comes unasked
  if (!passed.valid() || (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &end_alone) != 0 &&
                          epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &end_alone) != 0)) {
    cut(id);
    return;
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const linger politely{0, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &politely, sizeof(politely));
  client.passed_on = true;
  admitted.push_back(std::move(passed));
}

void NetworkDoor::cut_overdue(std::vector<Fd>& admitted) {
  for (const uint64_t id : rules_.to_cut(steady_time())) {
    const auto client = clients_.find(id);
    if (client == clients_.end()) continue;
    const bool was_passed_on = client->second.passed_on;
    if (!was_passed_on)
      look_at(id, 0, admitted);  // it may have greeted while we were busy with others
    if (const auto left = clients_.find(id);
        left != clients_.end() && left->second.passed_on == was_passed_on)
      cut(id);
  }
}

// No descriptors are left: the stranger whose time is over first has to go.
void NetworkDoor::make_room() {
  const std::optional<Time> deadline = rules_.next_deadline();
  if (deadline) {
    cut(rules_.to_cut(*deadline).front());
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // no spinning until a client goes
  }
}

void NetworkDoor::cut(uint64_t id) {
  const auto client = clients_.find(id);
  if (client != clients_.end()) {
    const int fd = client->second.connection.get();
    if (client->second.passed_on) {
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd,
                nullptr);       // the other descriptor would keep it there
      shutdown(fd, SHUT_RDWR);  // gRPC sees the end and lets go
    }
    clients_.erase(client);
    rules_.ended(steady_time(), id);
  }
}

template <class Action>
void NetworkDoor::with_client(const std::string& peer, const Action& action) {
  const std::string name = client_name(peer);
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, client] : clients_) {
    if (client.name == name) {
      action(id);
    }
  }
}

void NetworkDoor::proven(const std::string& peer) {
  with_client(peer, [&](uint64_t id) { rules_.proven(id); });
}

void NetworkDoor::refused(const std::string& peer) {
  with_client(peer, [&](uint64_t id) { rules_.refused(steady_time(), id); });
  eventfd_write(wake_.get(), 1);  // its time is shorter now
}

uint64_t NetworkDoor::failures() const {
  const std::scoped_lock lock(mutex_);
  return rules_.failures();
}

}  // namespace ds
