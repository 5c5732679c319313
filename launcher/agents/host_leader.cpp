#include "launcher/agents/host_leader.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>

#include "core/files/poll_time.h"
#include "core/status/error.h"
#include "launcher/process/abstract_address.h"
#include "launcher/process/credentials.h"

namespace ds {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kLongestPacket = size_t{64} << 10;  // Open MPI sets about 3 KB of variables
constexpr milliseconds kLeaderRetryPeriod{20};
constexpr std::string_view kGpus = " gpus ";

// One packet; nullopt at the end of the connection or of the patience.
std::optional<std::string> receive_packet(int fd, Clock::time_point deadline) {
  std::string packet(kLongestPacket, '\0');
  do {
    pollfd watched{fd, POLLIN, 0};
    if (poll(&watched, 1, poll_time_until(deadline)) <= 0) continue;
    const ssize_t got = recv(fd, packet.data(), packet.size(), 0);
    if (got == static_cast<ssize_t>(kLongestPacket)) return std::nullopt;  // or cut there
    if (got > 0) return packet.substr(0, static_cast<size_t>(got));
    if (got == 0 || errno != EINTR) return std::nullopt;
  } while (Clock::now() < deadline);
  return std::nullopt;
}

bool send_packet(int fd, std::string_view text) {
  return send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

template <class Int>
bool read_whole(std::string_view text, Int& value) {
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && at == text.data() + text.size();
}

// GPUs, as CUDA_VISIBLE_DEVICES names them.
bool read_names(std::string_view list, std::vector<std::string>& out) {
  for (size_t comma = 0; comma != std::string_view::npos; list.remove_prefix(comma + 1)) {
    comma = list.find(',');
    const std::string_view name = list.substr(0, comma);
    if (name.empty() || name.find_first_of(" \n") != std::string_view::npos) return false;
    out.emplace_back(name);
    if (comma == std::string_view::npos) break;
  }
  return true;
}

bool same_user(int fd) {
  const std::optional<unsigned> uid = peer_uid(fd);
  return uid && *uid == geteuid();
}

}  // namespace

std::string share_packet(const SlotShare& share) {
  std::string packet =
      fmt::format("slot {} cores {}", share.local_rank, fmt::join(share.cores, ","));
  if (!share.gpus.empty()) packet += fmt::format("{}{}", kGpus, fmt::join(share.gpus, ","));
  for (const std::string& variable : share.variables) {
    packet += '\0';
    packet += variable;
  }
  return packet;
}

std::optional<SlotShare> parse_share(std::string_view packet) {
  std::string_view line = packet.substr(0, packet.find('\0'));
  packet.remove_prefix(line.size());
  constexpr std::string_view kSlot = "slot ";
  constexpr std::string_view kCores = " cores ";
  const size_t middle = line.find(kCores);
  SlotShare share;
  if (!line.starts_with(kSlot) || middle == std::string_view::npos ||
      !read_whole(line.substr(kSlot.size(), middle - kSlot.size()), share.local_rank)) {
    return std::nullopt;
  }
  line.remove_prefix(middle + kCores.size());
  if (const size_t gpus = line.find(kGpus); gpus != std::string_view::npos) {
    if (!read_names(line.substr(gpus + kGpus.size()), share.gpus)) return std::nullopt;
    line = line.substr(0, gpus);
  }
  for (size_t comma = 0; comma != std::string_view::npos; line.remove_prefix(comma + 1)) {
    comma = line.find(',');
    int core = -1;
    const bool ascends = read_whole(line.substr(0, comma), core) && core < CPU_SETSIZE &&
                         core > (share.cores.empty() ? -1 : share.cores.back());
    if (!ascends) return std::nullopt;
    share.cores.push_back(core);
    if (comma == std::string_view::npos) break;
  }
  while (!packet.empty()) {  // a NUL, and what stands behind it
    packet.remove_prefix(1);
    const std::string_view variable = packet.substr(0, packet.find('\0'));
    if (variable.find('=') == std::string_view::npos) return std::nullopt;
    share.variables.emplace_back(variable);
    packet.remove_prefix(variable.size());
  }
  return share;
}

std::string slot_socket_name(std::string_view job, std::string_view host, unsigned uid) {
  return "dslaunch-slots-" + sha256_hex(fmt::format("{}\n{}\n{}", job, host, uid)).substr(0, 32);
}

HostLeader::HostLeader(const std::string& name)
    : listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  const AbstractAddress address(name);
  if (!listener_.valid() || bind(listener_.get(), address.get(), address.size()) != 0 ||
      listen(listener_.get(), SOMAXCONN) != 0) {
    throw IoError(fmt::format(
        "the socket for the other dslaunch of this job on this host: {}{}", std::strerror(errno),
        errno == EADDRINUSE ? " (another job of the same name runs here)" : ""));
  }
}

std::vector<SlotShare> HostLeader::gather(int peers, std::chrono::seconds limit, int interrupt_fd) {
  const auto deadline = Clock::now() + limit;
  std::map<int, SlotShare> shares;
  while (shares.size() < static_cast<size_t>(peers)) {
    std::array<pollfd, 2> watched{{{listener_.get(), POLLIN, 0}, {interrupt_fd, POLLIN, 0}}};
    const int ready = poll(watched.data(), watched.size(), poll_time_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready > 0 && watched[1].revents != 0) {
      throw Error(ExitCode::kClusterUnusable, "stopped while the job's dslaunch were waited for");
    }
    if (ready <= 0) break;
    Fd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection.valid() || !same_user(connection.get())) continue;
    // It says this before all else, so one that does not is none of ours.
    const auto line = receive_packet(connection.get(),
                                     std::min(deadline, Clock::now() + std::chrono::seconds(1)));
    const std::optional<SlotShare> share = line ? parse_share(*line) : std::nullopt;
    const bool expected = share && share->local_rank >= 1 && share->local_rank <= peers &&
                          !shares.contains(share->local_rank);
    if (expected) {
      shares[share->local_rank] = *share;
      connections_.push_back(std::move(connection));
    }
  }
  std::vector<SlotShare> out;
  std::vector<int> missing;
  for (int peer = 1; peer <= peers; ++peer) {
    shares.contains(peer) ? out.push_back(shares[peer]) : missing.push_back(peer);
  }
  if (!missing.empty()) {
    throw Error(ExitCode::kClusterUnusable,
                fmt::format("of the {} dslaunch on this host, those of local rank {} did not come "
                            "within {} s",
                            peers + 1, fmt::join(missing, ", "), limit.count()));
  }
  return out;
}

void HostLeader::release(int code) noexcept {
  for (const Fd& connection : connections_) {
    send_packet(connection.get(), fmt::format("end {}", code));
  }
  connections_.clear();
}

int wait_for_first(const std::string& name, const SlotShare& share, std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  const AbstractAddress address(name);
  const std::string packet = share_packet(share);
  if (packet.size() >= kLongestPacket) {
    throw UsageError(fmt::format(
        "the variables OMPI_* and PMIX_* hold {} bytes, and {} can be passed on; unset those "
        "that only this shell has set",
        packet.size(), kLongestPacket));
  }
  Fd connection;
  for (;;) {
    connection = Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (connection.valid() && connect(connection.get(), address.get(), address.size()) == 0 &&
        same_user(connection.get()) && send_packet(connection.get(), packet)) {
      break;
    }
    if (Clock::now() >= deadline) {
      throw Error(
          ExitCode::kClusterUnusable,
          fmt::format("the first dslaunch of this job on this host did not appear within {} s",
                      limit.count()));
    }
    poll(nullptr, 0, static_cast<int>(kLeaderRetryPeriod.count()));
  }
  const std::optional<std::string> line =
      receive_packet(connection.get(), Clock::time_point::max());
  int code = 0;
  constexpr std::string_view kEnd = "end ";
  const bool told = line && line->starts_with(kEnd) &&
                    read_whole(std::string_view(*line).substr(kEnd.size()), code);
  return told ? code : static_cast<int>(ExitCode::kClusterUnusable);
}

}  // namespace ds
