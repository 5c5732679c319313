#include "launcher/control_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "launcher/abstract_address.h"
#include "launcher/credentials.h"
#include "launcher/json_text.h"

namespace ds {

std::string control_socket_name(const std::filesystem::path& directory, unsigned uid) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(directory, error);
  if (error) throw IoError(fmt::format("run directory {}: {}", directory.string(), error.message()));
  return "dslaunch-" + sha256_hex(fmt::format("{}\n{}", uid, real.string())).substr(0, 40);
}

ControlSocket::ControlSocket(const std::string& name, const Limits& limits)
    : limits_(limits),
      listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  constexpr int kBacklog = 16;
  const AbstractAddress address(name);
  if (!listener_.valid() || bind(listener_.get(), address.get(), address.size()) != 0 ||
      listen(listener_.get(), kBacklog) != 0) {
    throw IoError(errno == EADDRINUSE
                      ? std::string("control socket: another dslaunch runs in this directory")
                      : fmt::format("control socket: {}", std::strerror(errno)));
  }
}

void ControlSocket::add_poll_descriptors(std::vector<pollfd>& out) const {
  if (callers_.size() < limits_.connections && deaf_until_ == Time::zero()) {
    out.push_back({listener_.get(), POLLIN, 0});
  }
  for (const Caller& caller : callers_) {
    out.push_back({caller.fd.get(), static_cast<short>(caller.answered ? POLLOUT : POLLIN), 0});
  }
}

void ControlSocket::serve(Time now, const Answer& answer) {
  accept_callers(now);
  std::erase_if(callers_, [&](Caller& caller) { return now >= caller.until || !keep(caller, answer); });
}

void ControlSocket::accept_callers(Time now) {
  if (now < deaf_until_) return;
  deaf_until_ = Time::zero();
  while (callers_.size() < limits_.connections) {
    Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // Out of descriptors: the caller stays in the queue, and would wake the loop for ever.
      if (errno != EAGAIN) deaf_until_ = now + std::chrono::seconds(1);
      return;
    }
    const std::optional<unsigned> uid = peer_uid(fd.get());
    if (uid && (*uid == geteuid() || *uid == 0)) {
      callers_.push_back({.fd = std::move(fd), .until = now + limits_.patience});
    }
  }
}

bool ControlSocket::read_request(Caller& caller, const Answer& answer) const {
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t got = recv(caller.fd.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    caller.request.append(bytes.data(), static_cast<size_t>(got));
    const size_t end = caller.request.find('\n');
    const bool too_long = std::min(end, caller.request.size()) > limits_.request_bytes;
    if (end == std::string::npos && !too_long) continue;
    caller.answered = true;
    caller.reply = (too_long ? JsonObject()
                                   .raw("ok", "false")
                                   .text("error", fmt::format("a request has at most {} bytes",
                                                              limits_.request_bytes))
                                   .str()
                             : answer(std::string_view(caller.request).substr(0, end))) +
                   "\n";
    return true;
  }
}

bool ControlSocket::keep(Caller& caller, const Answer& answer) const {
  if (!caller.answered && !read_request(caller, answer)) return false;
  while (caller.answered && !caller.reply.empty()) {
    const ssize_t sent = send(caller.fd.get(), caller.reply.data(), caller.reply.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN;
    caller.reply.erase(0, static_cast<size_t>(sent));
  }
  return !caller.answered;
}

}  // namespace ds
