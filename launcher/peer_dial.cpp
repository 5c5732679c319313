#include "launcher/peer_dial.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/error.h"

namespace ds {
namespace {

using Clock = std::chrono::steady_clock;
using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

constexpr int kWaiting = 128;  // that the kernel takes in before anybody accepts

AddressList literal_address(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) {
    throw UsageError(fmt::format("'{}': expected a literal address", host));
  }
  return {found, &freeaddrinfo};
}

AddressList parse_endpoint(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos) {
    throw UsageError(fmt::format("'{}': expected ADDRESS:PORT", endpoint));
  }
  std::string host = endpoint.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return literal_address(host, endpoint.substr(colon + 1));
}

// Begins the connection; the error where it fails at once.
std::string begin_dial(const std::string& endpoint, Fd& connection) {
  try {
    const AddressList to = parse_endpoint(endpoint);
    connection = Fd(socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!connection.valid()) return std::strerror(errno);
    const int result = connect(connection.get(), to->ai_addr, to->ai_addrlen);
    return result == 0 || errno == EINPROGRESS ? "" : std::strerror(errno);
  } catch (const Error& error) {
    return error.what();
  }
}

std::string outcome_of(const Fd& connection) {
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? "" : std::strerror(error);
}

}  // namespace

PeerListener listen_for_dials(const std::string& address, int port) {
  const AddressList at = literal_address(address, std::to_string(port));
  PeerListener out{Fd(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), ""};
  const int on = 1;
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  auto* const generic = reinterpret_cast<sockaddr*>(&bound);
  // Connections of an ended job that still linger must not look like a port in use.
  if (!out.listener.valid() ||
      setsockopt(out.listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      bind(out.listener.get(), at->ai_addr, at->ai_addrlen) != 0 ||
      listen(out.listener.get(), kWaiting) != 0 ||
      getsockname(out.listener.get(), generic, &size) != 0) {
    throw CommError(fmt::format("listening on {}, port {}: {}", address, port, std::strerror(errno)));
  }
  std::array<char, NI_MAXSERV> service{};
  getnameinfo(generic, size, nullptr, 0, service.data(), service.size(), NI_NUMERICSERV);
  const bool is_v6 = address.find(':') != std::string::npos;
  out.endpoint = is_v6 ? fmt::format("[{}]:{}", address, service.data())
                       : fmt::format("{}:{}", address, service.data());
  return out;
}

std::vector<PeerDial> dial_peers(const std::vector<std::string>& endpoints,
                                 std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  std::vector<PeerDial> failed;
  std::vector<Fd> connections(endpoints.size());
  std::vector<pollfd> watched(endpoints.size(), pollfd{-1, POLLOUT, 0});
  size_t pending = 0;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    const std::string error = begin_dial(endpoints[i], connections[i]);
    if (error.empty()) {
      watched[i].fd = connections[i].get();
      ++pending;
    } else {
      failed.push_back({endpoints[i], error});
    }
  }
  while (pending > 0 && Clock::now() < deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    poll(watched.data(), watched.size(), static_cast<int>(left.count()));
    for (size_t i = 0; i < watched.size(); ++i) {
      if (watched[i].fd < 0 || watched[i].revents == 0) continue;
      watched[i].fd = -1;  // poll leaves it out from now on
      --pending;
      const std::string error = outcome_of(connections[i]);
      if (!error.empty()) failed.push_back({endpoints[i], error});
    }
  }
  for (size_t i = 0; i < watched.size(); ++i) {
    if (watched[i].fd >= 0) {
      failed.push_back({endpoints[i], fmt::format("no answer within {} s",
                                                  std::chrono::ceil<std::chrono::seconds>(limit).count())});
    }
  }
  return failed;
}

}  // namespace ds
