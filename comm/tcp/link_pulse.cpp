#include "comm/tcp/link_pulse.h"

#include <fmt/format.h>
#include <linux/tcp.h>  // netinet/tcp.h has an older tcp_info
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>

namespace ds::detail {
namespace {

constexpr std::chrono::seconds kUnderWay{1};

}  // namespace

std::optional<TcpHealth> tcp_health(int socket) {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return std::nullopt;
  if (bytes < offsetof(tcp_info, tcpi_segs_in) + sizeof(info.tcpi_segs_in)) return std::nullopt;
  return TcpHealth{info.tcpi_unacked > 0, info.tcpi_bytes_acked, info.tcpi_segs_in};
}

void LinkPulse::sample(TimePoint now, const TcpHealth& health) {
  if (!health.in_flight) {
    stuck_since_.reset();
    heard_then_.reset();
  } else if (!stuck_since_ || health.acknowledged != acknowledged_) {
    stuck_since_ = now;
    heard_then_.reset();
  } else if (!heard_then_ && now - *stuck_since_ >= kUnderWay) {
    heard_then_ = health.heard;
  }
  acknowledged_ = health.acknowledged;
  heard_ = health.heard;
}

std::optional<LinkTrouble> LinkPulse::trouble(TimePoint now, int peer) const {
  if (!stuck_since_ || now - *stuck_since_ < kSilence) return std::nullopt;
  // No number that moves: whoever compares two reports sees whether anything has changed.
  return LinkTrouble{peer, heard_then_ && heard_ > *heard_then_,
                     fmt::format("nothing was acknowledged for {} s", kSilence.count())};
}

}  // namespace ds::detail
