#include "launcher/control/control_query.h"

#include <poll.h>
#include <rapidjson/document.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/files/file.h"
#include "core/status/error.h"
#include "launcher/control/control_socket.h"
#include "launcher/process/abstract_address.h"

namespace ds {
namespace {

[[noreturn]] void no_reply(const std::string& why) {
  throw Error(ExitCode::kClusterUnusable, fmt::format("asking dslaunch: {}", why));
}

void wait_ready(int fd, short events, Time until) {
  const Time left = until - std::chrono::steady_clock::now().time_since_epoch();
  const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(std::max(left, Time::zero()));
  pollfd watched{fd, events, 0};
  const int ready = poll(&watched, 1, static_cast<int>(timeout.count()));
  if (ready == 0) no_reply("it did not answer in time");
  if (ready < 0 && errno != EINTR) no_reply(std::strerror(errno));
}

void send_line(int fd, std::string line, Time until) {
  line += '\n';
  while (!line.empty()) {
    const ssize_t sent = send(fd, line.data(), line.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      line.erase(0, static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EINTR) {
      wait_ready(fd, POLLOUT, until);
    } else {
      no_reply(std::strerror(errno));
    }
  }
}

std::string receive_line(int fd, Time until) {
  constexpr size_t kMaxReply = 16 << 20;
  std::string reply;
  std::array<char, 16384> bytes{};
  while (reply.size() <= kMaxReply) {
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), 0);
    if (got > 0) {
      reply.append(bytes.data(), static_cast<size_t>(got));
      if (const size_t end = reply.find('\n'); end != std::string::npos)
        return reply.substr(0, end);
    } else if (got == 0) {
      no_reply("it closed the connection without an answer");
    } else if (errno == EAGAIN || errno == EINTR) {
      wait_ready(fd, POLLIN, until);
    } else {
      no_reply(std::strerror(errno));
    }
  }
  no_reply("its answer has no end");
}

std::string text_of(const rapidjson::Document& reply, const char* key) {
  const auto found = reply.FindMember(key);
  return found != reply.MemberEnd() && found->value.IsString() ? found->value.GetString() : "";
}

ControlReply read_reply(const std::string& line) {
  rapidjson::Document reply;
  reply.Parse<rapidjson::kParseIterativeFlag>(line.data(), line.size());
  if (reply.HasParseError() || !reply.IsObject()) throw DataError("dslaunch's answer is not JSON");
  const auto good = reply.FindMember("ok");
  if (good == reply.MemberEnd() || !good->value.IsTrue()) {
    throw Error(ExitCode::kClusterUnusable, text_of(reply, "error"));
  }
  const auto status = reply.FindMember("status");
  if (status == reply.MemberEnd()) throw DataError("dslaunch's answer has no status");
  return {text_of(reply, "notice"), read_status(status->value)};
}

}  // namespace

std::optional<std::string> query_socket(const std::string& name, std::string_view request,
                                        Time patience, unsigned owner) {
  const Time until = std::chrono::steady_clock::now().time_since_epoch() + patience;
  const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) no_reply(std::strerror(errno));
  const AbstractAddress address(name);
  if (connect(fd.get(), address.get(), address.size()) != 0) {
    if (errno == ECONNREFUSED || errno == ENOENT) return std::nullopt;
    no_reply(errno == EAGAIN ? "too many others are asking" : std::strerror(errno));
  }
  const std::optional<unsigned> uid = peer_uid(fd.get());
  if (!uid || (*uid != owner && *uid != 0)) no_reply("another user listens in its place");
  send_line(fd.get(), std::string(request), until);
  return receive_line(fd.get(), until);
}

std::optional<ControlReply> query_run(const std::filesystem::path& directory,
                                      std::string_view request) {
  constexpr Time kPatience = std::chrono::seconds(5);
  auto line = query_socket(control_socket_name(directory, geteuid()), request, kPatience);
  struct stat owner {};
  if (!line && stat(directory.c_str(), &owner) == 0 && owner.st_uid != geteuid()) {
    line = query_socket(control_socket_name(directory, owner.st_uid), request, kPatience,
                        owner.st_uid);
  }
  return line ? std::optional(read_reply(*line)) : std::nullopt;
}

}  // namespace ds
