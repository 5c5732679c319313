#include "rankd/control/bootstrap.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/status/error.h"
#include "core/text/secrecy.h"
#include "core/values/index.h"
#include "proto/control.pb.h"

namespace ds {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

// Fills `bytes` from `fd`; false at end of file.
bool read_fully(int fd, char* bytes, size_t count, steady_clock::time_point deadline) {
  for (size_t done = 0; done < count;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    pollfd ready{fd, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) {
      throw CommError("bootstrap: nothing more came on standard input for 30 s");
    }
    const ssize_t got = read(fd, bytes + done, count - done);
    if (got == 0) {
      return false;
    }
    if (got < 0 && errno != EINTR) {
      throw IoError(fmt::format("bootstrap: reading standard input: {}", std::strerror(errno)));
    }
    done += got > 0 ? to_size(got) : 0;
  }
  return true;
}

}  // namespace

Bootstrap read_bootstrap(int fd) {
  constexpr uint32_t kMaxBytes = 1 << 20;
  const auto deadline = steady_clock::now() + seconds(30);
  std::array<unsigned char, 4> prefix{};
  control::Bootstrap in;
  std::string bytes;
  bool complete = read_fully(fd, reinterpret_cast<char*>(prefix.data()), prefix.size(), deadline);
  const uint32_t size = static_cast<uint32_t>(prefix[0]) | static_cast<uint32_t>(prefix[1]) << 8 |
                        static_cast<uint32_t>(prefix[2]) << 16 |
                        static_cast<uint32_t>(prefix[3]) << 24;
  if (complete && size <= kMaxBytes) {
    bytes.resize(size);
    complete = read_fully(fd, bytes.data(), size, deadline);
  }
  if (!complete || size > kMaxBytes || !in.ParseFromString(bytes)) {
    throw UsageError(
        "rankd: standard input is not a bootstrap message; dslaunch starts rankd, "
        "use `dslaunch train.json`");
  }
  Bootstrap out{.coordinator_address = in.coordinator_address(),
                .token = in.token(),
                .rank = in.rank(),
                .world_size = in.world_size(),
                .epoch = in.epoch(),
                .run_dir = in.run_dir(),
                .launcher_pid = in.launcher_pid(),
                .config_digest = in.config_digest(),
                .ca_certificate = in.ca_certificate(),
                .certificate = in.certificate(),
                .private_key = in.private_key(),
                .coordinator_name = in.coordinator_name(),
                .data_address = in.data_address(),
                .join_timeout = std::chrono::milliseconds(in.join_timeout_ms()),
                .memory_fd = in.memory_fd() > 0 ? in.memory_fd() : -1};
  wipe(bytes);
  wipe(*in.mutable_token());
  wipe(*in.mutable_private_key());
  return out;
}

void wipe_secrets(Bootstrap& bootstrap) {
  wipe(bootstrap.token);
  wipe(bootstrap.private_key);
}

Bootstrap::~Bootstrap() { wipe_secrets(*this); }

}  // namespace ds
