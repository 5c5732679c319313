#include "launcher/host_meeting.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "core/error.h"
#include "core/secrecy.h"
#include "launcher/addresses.h"
#include "launcher/credentials.h"
#include "launcher/meeting_file.h"
#include "launcher/network_door.h"
#include "launcher/tls_relay.h"
#include "proto/build_info.h"

namespace ds {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kHandshakeLimit{5000};
constexpr milliseconds kConnectLimit{2000};
constexpr milliseconds kRetryPeriod{50};

using FreeList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string address_of(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int error =
      getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text.data() : "";
}

// "10.0.0.1:4242" or "[fd00::1]:4242", as the door calls a guest.
std::string peer_endpoint(int connection) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  auto* const generic = reinterpret_cast<sockaddr*>(&peer);
  if (getpeername(connection, generic, &size) != 0) return "";
  const bool v6 = peer.ss_family == AF_INET6;
  const int port = ntohs(v6 ? reinterpret_cast<sockaddr_in6*>(&peer)->sin6_port
                            : reinterpret_cast<sockaddr_in*>(&peer)->sin_port);
  const std::string host = address_of(generic, size);
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

// What came through the door, until the loop below takes it.
class Arrivals {
 public:
  void push(Fd connection) {
    const std::scoped_lock lock(mutex_);
    arrived_.push_back(std::move(connection));
    eventfd_write(wake_.get(), 1);
  }
  std::vector<Fd> take() {
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
    const std::scoped_lock lock(mutex_);
    return std::exchange(arrived_, {});
  }
  int fd() const { return wake_.get(); }

 private:
  const Fd wake_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex_;  // guards arrived_
  std::vector<Fd> arrived_;
};

class HostMeeting {
 public:
  explicit HostMeeting(const MeetingOptions& options)
      : options_(options),
        secret_(random_bytes(kRelaySecretBytes)),
        door_({.addresses = options.addresses, .port = 0, .rules = {}}),
        file_(options.file, {door_.endpoints(), secret_}) {
    door_.open([this](Fd connection) { arrivals_.push(std::move(connection)); });
  }
  HostMeeting(const HostMeeting&) = delete;  // the door's thread holds `this`
  HostMeeting& operator=(const HostMeeting&) = delete;
  ~HostMeeting() {
    door_.close();
    wipe(secret_);
  }

  std::vector<std::unique_ptr<HostLink>> wait_for_all() {
    const auto deadline = Clock::now() + options_.limit;
    while (represented_ < options_.processes) {
      if (Clock::now() >= deadline) refuse_missing();
      wait(deadline);
      admit();
      hear();
    }
    std::vector<std::unique_ptr<HostLink>> links;
    for (auto& [rank, link] : met_) links.push_back(std::move(link));
    return links;
  }

 private:
  struct Caller {
    std::string peer;
    std::unique_ptr<HostLink> link;
  };

  void wait(Clock::time_point deadline) {
    std::vector<pollfd> watched{{arrivals_.fd(), POLLIN, 0}, {options_.interrupt_fd, POLLIN, 0}};
    for (const Caller& caller : callers_) caller.link->add_poll_descriptors(watched);
    for (const auto& [rank, link] : met_) link->add_poll_descriptors(watched);
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    poll(watched.data(), watched.size(),
         static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000)));
    if (watched[1].revents != 0) {
      throw Error(ExitCode::kClusterUnusable,
                  "stopped while the other hosts were waited for; nothing was started");
    }
  }

  void admit() {
    for (Fd& connection : arrivals_.take()) {
      const std::string peer = peer_endpoint(connection.get());
      callers_.push_back({peer, std::make_unique<HostLink>(std::make_unique<TlsRelay>(
                                    TlsRelay::Role::kServer, std::move(connection), secret_,
                                    kHandshakeLimit))});
    }
  }

  void hear() {
    const auto now = Clock::now();
    const auto ignore = [](const agent::FromAgent&) {};
    for (auto& [rank, link] : met_) {
      link->pump(now, ignore);
      if (!link->lost().empty()) {
        throw Error(ExitCode::kClusterUnusable,
                    fmt::format("host {}, of rank {}, went again while others were waited for: {}",
                                link->host(), rank, link->lost()));
      }
    }
    for (Caller& caller : callers_) {
      caller.link->pump(now, ignore);
      if (caller.link->ready()) welcome(caller);
    }
    std::erase_if(callers_, [](const Caller& caller) {
      return !caller.link || !caller.link->lost().empty();  // a stranger, whom nobody misses
    });
  }

  void welcome(Caller& caller) {
    const agent::Ready& ready = *caller.link->ready();
    door_.proven("ip:" + caller.peer);
    if (ready.build_id() != build_id()) {
      throw Error(ExitCode::kClusterUnusable,
                  fmt::format("host {} has another build of dslaunch: {} there, {} here",
                              ready.host(), ready.build_id(), build_id()));
    }
    if (ready.slots_size() < 1 || met_.contains(ready.start_rank())) {
      throw Error(ExitCode::kClusterUnusable,
                  fmt::format("two dslaunch, the second on host {}, say that they are rank {} of this "
                              "job; another job of the same name uses {}",
                              ready.host(), ready.start_rank(), options_.file.string()));
    }
    represented_ += ready.slots_size();
    const bool name_is_taken = std::ranges::any_of(
        met_, [&](const auto& entry) { return entry.second->host() == ready.host(); });
    caller.link->set_host(name_is_taken ? fmt::format("{}.{}", ready.host(), ready.start_rank())
                                        : ready.host());
    met_[ready.start_rank()] = std::move(caller.link);
  }

  [[noreturn]] void refuse_missing() const {
    std::vector<std::string> missing = options_.missing_names;
    for (const auto& [rank, link] : met_) {
      std::erase(missing, link->host());
    }
    const std::string who =
        missing.empty() ? fmt::format("{} of {} dslaunch of other hosts",
                                      options_.processes - represented_, options_.processes)
                        : fmt::format("{}", fmt::join(missing, ", "));
    throw Error(ExitCode::kClusterUnusable,
                fmt::format("no word from {} within {} s; they look for {}, which has to be in a folder "
                            "that all hosts share, and dial {}; --master-addr names an address that "
                            "they reach, and --hostfile with --launcher ssh needs neither",
                            who, options_.limit.count(), options_.file.string(),
                            fmt::join(door_.endpoints(), ", ")));
  }

  const MeetingOptions options_;
  std::string secret_;
  Arrivals arrivals_;
  NetworkDoor door_;
  const MeetingFile file_;
  std::vector<Caller> callers_;
  std::map<int, std::unique_ptr<HostLink>> met_;
  int represented_ = 0;
};

// Connected within kConnectLimit, or nothing.
Fd connect_to(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos) return {};
  std::string host = endpoint.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), endpoint.c_str() + colon + 1, &hints, &found) != 0) return {};
  const FreeList list(found, &freeaddrinfo);
  Fd connection(socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection.valid()) return {};
  if (connect(connection.get(), list->ai_addr, list->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return {};
  }
  pollfd watched{connection.get(), POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof(error);
  const bool connected =
      poll(&watched, 1, static_cast<int>(kConnectLimit.count())) == 1 &&
      getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  return connected ? std::move(connection) : Fd();
}

std::string own_address_of(int connection) {
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  auto* const generic = reinterpret_cast<sockaddr*>(&own);
  return getsockname(connection, generic, &size) == 0 ? address_of(generic, size) : "";
}

}  // namespace

std::vector<std::unique_ptr<HostLink>> meet_hosts(const MeetingOptions& options) {
  return HostMeeting(options).wait_for_all();
}

int join_meeting(const std::filesystem::path& file, const AgentSurroundings& surroundings,
                 const DialledAgent& self, seconds limit) {
  const auto deadline = Clock::now() + limit;
  std::string why;
  do {
    FoundMeeting found = read_meeting_file(file);
    why = found.why;
    for (const std::string& endpoint : found.place ? found.place->endpoints : std::vector<std::string>()) {
      Fd connection = connect_to(endpoint);
      if (!connection.valid()) {
        why = fmt::format("nobody answers at {}", endpoint);
        continue;
      }
      AgentSurroundings here = surroundings;
      here.address = own_address_of(connection.get());
      TlsRelay relay(TlsRelay::Role::kClient, std::move(connection), found.place->secret,
                     kHandshakeLimit);
      const std::optional<int> code =
          run_dialled_agent(here, {.start_rank = self.start_rank,
                                   .host = self.host,
                                   .slot_cores = self.slot_cores,
                                   .input = relay.take_input(),
                                   .output = relay.take_output()});
      if (code) return *code;
      why = fmt::format("{} does not know this job's secret", endpoint);
    }
    if (found.place) wipe(found.place->secret);
    poll(nullptr, 0, static_cast<int>(kRetryPeriod.count()));
  } while (Clock::now() < deadline);
  throw Error(ExitCode::kClusterUnusable,
              fmt::format("rank {} did not meet the first dslaunch of its job within {} s: {}",
                          self.start_rank, limit.count(), why));
}

std::vector<std::string> reachable_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    throw IoError(fmt::format("asking for the addresses of this machine: {}", std::strerror(errno)));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
    const bool fits = family == AF_INET ||
                      (family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr));
    const std::string text =
        fits ? address_of(entry->ifa_addr,
                          family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6))
             : "";
    if (!text.empty() && !is_loopback_address(text)) addresses.push_back(text);
  }
  if (addresses.empty()) addresses.emplace_back("127.0.0.1");
  return addresses;
}

}  // namespace ds
