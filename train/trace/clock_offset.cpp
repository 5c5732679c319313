#include "train/trace/clock_offset.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace ds {
namespace {

constexpr int kReadings = 5;

std::span<std::byte> bytes_of(int64_t& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// Measures on rank 0 the other rank's clock minus its own.
int64_t read_clock(HostExchange& host, int peer, const std::function<int64_t()>& now) {
  std::vector<ClockReading> readings(kReadings);
  for (ClockReading& reading : readings) {
    reading.sent = now();
    host.send(bytes_of(reading.sent), peer);
    host.receive(bytes_of(reading.theirs), peer);
    reading.received = now();
  }
  return clock_offset(readings);
}

void show_clock(HostExchange& host, const std::function<int64_t()>& now) {
  for (int i = 0; i < kReadings; ++i) {
    int64_t asked = 0;
    host.receive(bytes_of(asked), 0);
    int64_t shown = now();
    host.send(bytes_of(shown), 0);
  }
}

}  // namespace

int64_t clock_offset(std::span<const ClockReading> readings) {
  const auto quickest = std::ranges::min_element(
      readings, {}, [](const ClockReading& reading) { return reading.received - reading.sent; });
  if (quickest == readings.end()) return 0;
  const int64_t half = (quickest->received - quickest->sent) / 2;
  const int64_t offset = quickest->theirs - (quickest->sent + half);
  return std::abs(offset) <= half ? 0 : offset;
}

SharedClock share_clock(HostExchange& host, const std::function<int64_t()>& now) {
  SharedClock clock;
  for (int peer = 1; peer < host.size(); ++peer) {
    int64_t offset = host.rank() == 0 ? read_clock(host, peer, now) : 0;
    if (host.rank() == 0) host.send(bytes_of(offset), peer);
    if (host.rank() != peer) continue;
    show_clock(host, now);
    host.receive(bytes_of(clock.offset_ns), 0);
  }
  clock.begin_ns = host.rank() == 0 ? now() : 0;
  host.broadcast(bytes_of(clock.begin_ns), 0);
  return clock;
}

}  // namespace ds
