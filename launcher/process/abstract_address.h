// Unix sockets without a file, and who is at their other end.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

namespace ds {

// A name in the abstract namespace; it ends with the last socket that is bound to it.
class AbstractAddress {
 public:
  // `name` is cut at 100 bytes; ours have 49.
  explicit AbstractAddress(std::string_view name) {
    const std::string_view kept = name.substr(0, 100);
    address_.sun_family = AF_UNIX;
    std::ranges::copy(kept, address_.sun_path + 1);
    size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kept.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return size_; }

 private:
  sockaddr_un address_{};
  socklen_t size_ = 0;
};

// The user at the other end of a connected Unix socket, as the kernel noted it.
inline std::optional<unsigned> peer_uid(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

}  // namespace ds
