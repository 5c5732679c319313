#include "launcher/control/control_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/status/error.h"
#include "launcher/decide/text/json_text.h"
#include "launcher/process/abstract_address.h"
#include "launcher/process/credentials.h"

namespace ds {
namespace {

Fd listen_under(const std::string& name) {
  constexpr int kBacklog = 16;
  Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const AbstractAddress address(name);
  if (!listener.valid() || bind(listener.get(), address.get(), address.size()) != 0 ||
      listen(listener.get(), kBacklog) != 0) {
    throw IoError(errno == EADDRINUSE
                      ? std::string("control socket: another dslaunch runs in this directory")
                      : fmt::format("control socket: {}", std::strerror(errno)));
  }
  return listener;
}

bool is_ours_or_roots(int connection) {
  const std::optional<unsigned> uid = peer_uid(connection);
  return uid && (*uid == geteuid() || *uid == 0);
}

}  // namespace

std::string control_socket_name(const std::filesystem::path& directory, unsigned uid) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(directory, error);
  if (error)
    throw IoError(fmt::format("run directory {}: {}", directory.string(), error.message()));
  return "dslaunch-" + sha256_hex(fmt::format("{}\n{}", uid, real.string())).substr(0, 40);
}

ControlSocket::ControlSocket(const std::string& name, const Limits& limits)
    : longest_request_(limits.request_bytes),
      server_(listen_under(name), limits, is_ours_or_roots) {}

void ControlSocket::serve(Time now, const Answer& answer) {
  using Rest = RequestServer::Rest;
  server_.serve(now, [&](std::string_view so_far, Rest rest) -> std::optional<std::string> {
    const size_t end = so_far.find('\n');
    if (std::min(end, so_far.size()) > longest_request_) {
      const std::string why = fmt::format("a request has at most {} bytes", longest_request_);
      return JsonObject().raw("ok", "false").text("error", why).str() + "\n";
    }
    if (end == std::string_view::npos && rest != Rest::kTooLong) return std::nullopt;
    return answer(so_far.substr(0, end)) + "\n";
  });
}

}  // namespace ds
