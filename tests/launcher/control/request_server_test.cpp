#include "launcher/control/request_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>

#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

using Rest = RequestServer::Rest;
const std::string kLate = "too late\n";

// A server on a Unix socket, and a clock that only the test moves.
class Served {
 public:
  explicit Served(const RequestServer::Limits& limits = {}, RequestServer::Admit admit = {})
      : server_(listener(), limits, std::move(admit)) {}

  Fd call() const {
    Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    REQUIRE(connect(fd.get(), generic(), sizeof(address_)) == 0);
    return fd;
  }
  // Answers a request that ends with a newline with its text and a mark; what is too long, too.
  void serve() {
    server_.serve(now, [this](std::string_view so_far, Rest rest) -> std::optional<std::string> {
      ++asked;
      if (rest == Rest::kTooLong) return "too long\n";
      if (rest == Rest::kTooLate) return so_far.empty() ? std::nullopt : std::optional(kLate);
      if (!so_far.ends_with('\n')) return std::nullopt;
      return "<" + std::string(so_far.substr(0, so_far.size() - 1)) + ">" + padding;
    });
  }
  size_t connections() const { return server_.connections(); }

  Time now = std::chrono::seconds(100);
  int asked = 0;
  std::string padding;

 private:
  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address_); }
  Fd listener() {
    const std::string path = (here_.path() / "socket").string();
    address_.sun_family = AF_UNIX;
    path.copy(static_cast<char*>(address_.sun_path), sizeof(address_.sun_path) - 1);
    Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    REQUIRE(bind(fd.get(), generic(), sizeof(address_)) == 0);
    REQUIRE(listen(fd.get(), 16) == 0);
    return fd;
  }

  testing::TemporaryDirectory here_;
  sockaddr_un address_{};
  RequestServer server_;
};

void say(const Fd& fd, std::string_view text) {
  REQUIRE(write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

enum class Line { kOpen, kOver };

// What has come, and whether the other end has hung up.
std::pair<std::string, Line> heard(const Fd& fd) {
  std::string out;
  std::array<char, 4096> bytes{};
  while (true) {
    const ssize_t got = read(fd.get(), bytes.data(), bytes.size());
    if (got < 0) return {out, errno == EAGAIN ? Line::kOpen : Line::kOver};
    if (got == 0) return {out, Line::kOver};
    out.append(bytes.data(), static_cast<size_t>(got));
  }
}

}  // namespace

TEST_CASE("a request is answered once it is whole, and the connection is over", "[launcher]") {
  Served served;
  const Fd caller = served.call();
  served.serve();
  CHECK(served.connections() == 1);
  say(caller, "hel");
  served.serve();
  CHECK(heard(caller) == std::pair(std::string(), Line::kOpen));
  say(caller, "lo\n");
  served.serve();
  served.serve();
  CHECK(heard(caller) == std::pair(std::string("<hello>"), Line::kOver));
  CHECK(served.connections() == 0);
}

TEST_CASE("who says nothing is hung up on after the patience", "[launcher]") {
  Served served({.patience = std::chrono::seconds(5)});
  const Fd silent = served.call();
  served.serve();
  served.now += std::chrono::milliseconds(4900);
  served.serve();
  CHECK(heard(silent).second == Line::kOpen);
  served.now += std::chrono::milliseconds(200);
  served.serve();
  CHECK(heard(silent) == std::pair(std::string(), Line::kOver));
}

TEST_CASE("who goes away in the middle of a request is forgotten", "[launcher]") {
  Served served;
  {
    const Fd caller = served.call();
    say(caller, "half");
    served.serve();
    CHECK(served.connections() == 1);
  }
  served.serve();
  CHECK(served.connections() == 0);
}

TEST_CASE("more callers than there is room for wait their turn", "[launcher]") {
  Served served({.connections = 2});
  const std::array<Fd, 3> callers{served.call(), served.call(), served.call()};
  for (const Fd& caller : callers) say(caller, "a\n");
  for (int round = 0; round < 4; ++round) {
    served.serve();
    CHECK(served.connections() <= 2);
  }
  for (const Fd& caller : callers) CHECK(heard(caller).first == "<a>");
}

TEST_CASE("a request that is longer than allowed is told so and read no further", "[launcher]") {
  Served served({.request_bytes = 100});
  const Fd caller = served.call();
  say(caller, std::string(500, 'x'));
  for (int round = 0; round < 4; ++round) served.serve();
  CHECK(heard(caller).first == "too long\n");
}

TEST_CASE("who sends more than is read hears the reply all the same, and nothing is kept of him",
          "[launcher]") {
  Served served({.request_bytes = 100});
  const Fd caller = served.call();
  for (int round = 0; round < 4; ++round) {
    // Not all of it goes: the caller does not wait either.
    const std::string flood(60'000, 'x');
    static_cast<void>(::send(caller.get(), flood.data(), flood.size(), MSG_NOSIGNAL));
    served.serve();
  }
  CHECK(heard(caller) == std::pair(std::string("too long\n"), Line::kOver));
  CHECK(served.connections() == 1);
  REQUIRE(::shutdown(caller.get(), SHUT_WR) == 0);
  for (int round = 0; round < 8; ++round) served.serve();
  CHECK(served.connections() == 0);
}

TEST_CASE("who goes on sending is hung up on after the patience", "[launcher]") {
  Served served({.request_bytes = 100, .patience = std::chrono::seconds(5)});
  const Fd caller = served.call();
  say(caller, std::string(500, 'x'));
  served.serve();
  served.serve();
  CHECK(served.connections() == 1);
  served.now += std::chrono::seconds(6);
  served.serve();
  CHECK(served.connections() == 0);
}

TEST_CASE("who is late is told so if there are words for it", "[launcher]") {
  Served served;
  const Fd caller = served.call();
  say(caller, "half");
  served.serve();
  served.now += std::chrono::seconds(6);
  served.serve();
  CHECK(heard(caller) == std::pair(kLate, Line::kOver));
}

TEST_CASE("a reply that does not go at once follows as the reader takes it", "[launcher]") {
  Served served;
  served.padding = std::string(1 << 20, 'p');  // more than a socket holds
  const Fd caller = served.call();
  say(caller, "a\n");
  served.serve();
  std::string all;
  Line line = Line::kOpen;
  for (int round = 0; round < 10'000 && line == Line::kOpen; ++round) {
    const auto [more, now] = heard(caller);
    all += more;
    line = now;
    served.serve();
  }
  CHECK(all.size() == 3 + served.padding.size());
  CHECK(served.asked == 1);
}

TEST_CASE("who is not admitted is hung up on unheard", "[launcher]") {
  Served served({}, [](int) { return false; });
  const Fd caller = served.call();
  say(caller, "a\n");
  served.serve();
  CHECK(served.asked == 0);
  CHECK(served.connections() == 0);
  CHECK(heard(caller).first.empty());
}

}  // namespace ds
