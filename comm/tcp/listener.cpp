#include <sys/socket.h>

#include "comm/shm/segment.h"
#include "comm/tcp/address.h"
#include "comm/tcp/comm.h"

namespace ds {

TcpListener::TcpListener(const std::string& address) {
  const SocketAddress wanted = detail::parse_interface_address(address);
  const auto fail = [&](const char* call) {
    throw CommError(fmt::format("listening for data on {}: {}; is it an address of this host?",
                                address, detail::system_error(call)));
  };
  Fd socket(::socket(wanted.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) fail("socket");
  const int on = 1;
  if (wanted.family() == AF_INET6 &&
      setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0) {
    fail("setsockopt");
  }
  if (bind(socket.get(), wanted.get(), wanted.bytes) != 0) fail("bind");
  if (listen(socket.get(), SOMAXCONN) != 0) fail("listen");
  endpoint_ = own_address(socket.get()).endpoint();
  socket_ = std::move(socket);
}

}  // namespace ds
