#include "launcher/control/peer_dial.h"

#include <poll.h>

#include <cerrno>
#include <cstring>

#include "core/files/poll_time.h"
#include "core/status/error.h"

namespace ds {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWaiting = 128;

// Begins the connection; the error where it fails at once.
std::string begin_dial(const std::string& endpoint, Fd& connection) {
  const std::optional<SocketAddress> to = parse_endpoint(endpoint);
  if (!to) return fmt::format("'{}': expected a literal ADDRESS:PORT", endpoint);
  connection = Fd(socket(to->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection.valid()) return std::strerror(errno);
  const int result = connect(connection.get(), to->get(), to->bytes);
  return result == 0 || errno == EINPROGRESS ? "" : std::strerror(errno);
}

std::string outcome_of(const Fd& connection) {
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? "" : std::strerror(error);
}

}  // namespace

Fd listening_socket(const SocketAddress& address, int waiting) {
  Fd listener(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (listener.valid() &&
      setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
      bind(listener.get(), address.get(), address.bytes) == 0 &&
      listen(listener.get(), waiting) == 0) {
    return listener;
  }
  const int error = errno;
  listener = Fd();
  errno = error;
  return listener;
}

PeerListener listen_for_dials(const std::string& address, int port) {
  const std::optional<SocketAddress> at = parse_address(address, port);
  if (!at)
    throw UsageError(
        fmt::format("'{}', port {}: expected a literal address and a port", address, port));
  PeerListener out{listening_socket(*at, kWaiting), ""};
  if (!out.listener.valid()) {
    throw CommError(
        fmt::format("listening on {}, port {}: {}", address, port, std::strerror(errno)));
  }
  out.endpoint = own_address(out.listener.get()).endpoint();
  return out;
}

std::vector<PeerDial> dial_peers(const std::vector<std::string>& endpoints,
                                 std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  std::vector<PeerDial> dials;
  std::vector<pollfd> watched(endpoints.size(), pollfd{-1, POLLOUT, 0});
  size_t pending = 0;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    PeerDial& dial = dials.emplace_back(PeerDial{endpoints[i], {}, ""});
    dial.error = begin_dial(dial.endpoint, dial.connection);
    if (!dial.error.empty()) continue;
    watched[i].fd = dial.connection.get();
    ++pending;
  }
  while (pending > 0 && Clock::now() < deadline) {
    poll(watched.data(), watched.size(), poll_time_until(deadline));
    for (size_t i = 0; i < watched.size(); ++i) {
      if (watched[i].fd < 0 || watched[i].revents == 0) continue;
      watched[i].fd = -1;  // poll leaves it out from now on
      --pending;
      dials[i].error = outcome_of(dials[i].connection);
    }
  }
  for (size_t i = 0; i < watched.size(); ++i) {
    if (watched[i].fd < 0) continue;
    dials[i].error = fmt::format("no answer within {} s",
                                 std::chrono::ceil<std::chrono::seconds>(limit).count());
  }
  return dials;
}

}  // namespace ds
