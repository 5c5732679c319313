// Whether a TCP connection still carries anything, as far as this host's kernel knows. The peer's
// kernel acknowledges what arrives however busy its process is, so that only a cut, or a host that
// is gone, stops it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "comm/contract/link_board.h"

namespace ds::detail {

struct TcpHealth {
  bool in_flight = false;     // something was sent that is not acknowledged, be it the first packet
  uint64_t acknowledged = 0;  // bytes, ever
  uint64_t heard = 0;         // packets that came, ever, also those that came again
};

// Nothing where the kernel cannot tell.
std::optional<TcpHealth> tcp_health(int socket);

// One connection's health over time (pure; clock injected).
class LinkPulse {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A flap of some seconds, as when a switch learns a new way, is waited for.
  static constexpr std::chrono::seconds kSilence{8};

  void sample(TimePoint now, const TcpHealth& health);
  // Nothing while the connection carries what is sent, or nothing is.
  std::optional<LinkTrouble> trouble(TimePoint now, int peer) const;

 private:
  std::optional<TimePoint> stuck_since_;
  uint64_t acknowledged_ = 0;
  // A moment after it got stuck, when all that was under way had come.
  std::optional<uint64_t> heard_then_;
  uint64_t heard_ = 0;
};

}  // namespace ds::detail
