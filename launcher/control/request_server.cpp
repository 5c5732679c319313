#include "launcher/control/request_server.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace ds {

RequestServer::RequestServer(Fd listener, const Limits& limits, Admit admit)
    : limits_(limits), listener_(std::move(listener)), admit_(std::move(admit)) {}

void RequestServer::add_poll_descriptors(std::vector<pollfd>& out) const {
  if (callers_.size() < limits_.connections && deaf_until_ == Time::zero()) {
    out.push_back({listener_.get(), POLLIN, 0});
  }
  for (const Caller& caller : callers_) {
    out.push_back({caller.fd.get(),
                   static_cast<short>(caller.answered && !caller.lingers ? POLLOUT : POLLIN), 0});
  }
}

void RequestServer::serve(Time now, const Reply& reply) {
  accept_callers(now);
  std::erase_if(callers_, [&](Caller& caller) {
    if (now < caller.until) return !keep(caller, reply);
    reply_late(caller, reply);
    return true;
  });
}

void RequestServer::accept_callers(Time now) {
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
    if (!admit_ || admit_(fd.get())) {
      callers_.push_back({.fd = std::move(fd), .until = now + limits_.patience});
    }
  }
}

bool RequestServer::answer(Caller& caller, const Reply& reply, Rest rest) {
  std::optional<std::string> all = reply(caller.request, rest);
  if (!all) return false;
  caller.answered = true;
  caller.reply = std::move(*all);
  return true;
}

bool RequestServer::read_request(Caller& caller, const Reply& reply) const {
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t got = recv(caller.fd.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return answer(caller, reply, Rest::kEnded);
    caller.request.append(bytes.data(), static_cast<size_t>(got));
    const bool full = caller.request.size() > limits_.request_bytes;
    if (answer(caller, reply, full ? Rest::kTooLong : Rest::kMayCome)) return true;
    if (full) return false;
  }
}

namespace {

// Bytes that are unread when a socket is closed make the kernel reset it, and the reply may be lost
// with that. False where the caller has hung up or said all it will.
bool drain(int fd) {
  std::array<char, 4096> bytes{};
  constexpr int kMostAtOnce = 16;
  for (int i = 0; i < kMostAtOnce; ++i) {
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), 0);
    if (got == 0 || (got < 0 && errno != EINTR)) return got < 0 && errno == EAGAIN;
  }
  return true;
}

bool holds_unread(int fd) {
  char byte = 0;
  return recv(fd, &byte, 1, MSG_PEEK) > 0;
}

}  // namespace

bool RequestServer::keep(Caller& caller, const Reply& reply) const {
  if (caller.lingers) return drain(caller.fd.get());
  if (!caller.answered && !read_request(caller, reply)) return false;
  while (caller.answered && !caller.reply.empty()) {
    const ssize_t sent =
        send(caller.fd.get(), caller.reply.data(), caller.reply.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN;
    caller.reply.erase(0, static_cast<size_t>(sent));
  }
  if (!caller.answered) return true;
  const bool cut_short = caller.request.size() > limits_.request_bytes;
  caller.lingers =
      (cut_short || holds_unread(caller.fd.get())) && shutdown(caller.fd.get(), SHUT_WR) == 0;
  return caller.lingers;
}

// What goes at once: nobody waits for this caller any more.
void RequestServer::reply_late(Caller& caller, const Reply& reply) {
  if (caller.answered || !answer(caller, reply, Rest::kTooLate)) return;
  drain(caller.fd.get());
  static_cast<void>(send(caller.fd.get(), caller.reply.data(), caller.reply.size(), MSG_NOSIGNAL));
}

}  // namespace ds
