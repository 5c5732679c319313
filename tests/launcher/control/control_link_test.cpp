// A link that swallows everything: no end of file, no reset, nothing.
#include <atomic>
#include <future>

#include "tests/launcher/raw_tls.h"
#include "tests/launcher/tls_plane.h"

namespace ds {
namespace {

Fd listen_anywhere() {
  Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  REQUIRE(listen(listener.get(), 1) == 0);
  return listener;
}

int local_port(const Fd& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  REQUIRE(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.sin_port);
}

// Passes bytes both ways, for one connection after the other, until it is told to swallow or to cut
// them.
class Relay {
 public:
  explicit Relay(int to)
      : listener_(listen_anywhere()),
        port_(local_port(listener_)),
        to_(to),
        thread_([this] { run(); }) {}
  Relay(const Relay&) = delete;  // the thread holds `this`
  Relay& operator=(const Relay&) = delete;
  ~Relay() {
    ending_ = true;
    thread_.join();
  }
  int port() const { return port_; }
  void swallow() { swallowing_ = true; }
  void cut() { cutting_ = true; }  // the connection at hand; the next one passes
  int connections() const { return connections_; }

 private:
  void run() {
    while (!ending_) {
      pollfd ready{listener_.get(), POLLIN, 0};
      if (poll(&ready, 1, 10) <= 0) continue;
      const Fd near(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const Fd far = dial(to_);
      ++connections_;
      while (!ending_ && !cutting_.exchange(false)) pass_both(near.get(), far.get());
    }
  }
  void pass_both(int near, int far) {
    pollfd watched[] = {{near, POLLIN, 0}, {far, POLLIN, 0}};
    if (swallowing_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // both sides' bytes pile up
    } else if (poll(watched, 2, 10) > 0) {
      pass(watched[0], far);
      pass(watched[1], near);
    }
  }
  static void pass(const pollfd& from, int to) {
    std::string bytes(65536, '\0');
    if (from.revents != 0) {
      const ssize_t got = recv(from.fd, bytes.data(), bytes.size(), 0);
      send(to, bytes.data(), static_cast<size_t>(std::max<ssize_t>(0, got)), MSG_NOSIGNAL);
    }
  }

  const Fd listener_;
  const int port_;
  const int to_;
  std::atomic<int> connections_ = 0;
  std::atomic<bool> cutting_ = false;
  std::atomic<bool> swallowing_ = false;
  std::atomic<bool> ending_ = false;
  std::thread thread_;  // last: uses everything above
};

}  // namespace

TEST_CASE("a rank notices a link that swallows everything", "[rankd][security]") {
  TlsPlane plane;
  Relay relay(port_of(plane.endpoint()));
  Bootstrap bootstrap = plane.bootstrap(0);
  bootstrap.coordinator_address = fmt::format("127.0.0.1:{}", relay.port());
  std::promise<void> lost;
  const std::unique_ptr<ControlClient> client =
      connect_control(bootstrap, [&] { lost.set_value(); });
  plane.join(*client);
  plane.expect<control::RankMessage>();
  relay.swallow();
  // 12 s by design; the bound here only has to tell that from never.
  CHECK(lost.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  plane.expect<AttendanceEnded>();
}

TEST_CASE("a launcher that goes is noticed, an end agreed on is not a loss", "[rankd]") {
  auto plane = std::make_unique<TlsPlane>();
  std::promise<void> lost;
  const std::unique_ptr<ControlClient> client =
      connect_control(plane->bootstrap(0), [&] { lost.set_value(); });
  plane->join(*client);
  const std::unique_ptr<ControlClient> other =
      connect_control(plane->bootstrap(1), [] { FAIL("this one was not lost"); });
  plane->join(*other);
  CHECK(plane->finish(*other));
  plane.reset();
  CHECK(lost.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready);
}

TEST_CASE("a connection that breaks costs no report and no command, and tells none twice",
          "[rankd]") {
  TlsPlane plane;
  Relay relay(port_of(plane.endpoint()));
  Bootstrap bootstrap = plane.bootstrap(0);
  bootstrap.coordinator_address = fmt::format("127.0.0.1:{}", relay.port());
  const std::unique_ptr<ControlClient> client =
      connect_control(bootstrap, [] { FAIL("it was not lost"); });
  plane.join(*client);
  std::vector<int64_t> heard;
  std::vector<Command> commands;
  StepMetrics metrics;
  constexpr int64_t kSteps = 60;
  for (metrics.step = 1; metrics.step <= kSteps; ++metrics.step) {
    client->report_step(metrics);
    client->report_text("at once");
    if (metrics.step % 20 == 10) relay.cut();
    if (metrics.step % 20 == 15) plane.coordinator().send_to_all(control::CommandMessage::SAVE_NOW);
    while (heard.size() < static_cast<size_t>(metrics.step)) {
      heard.push_back(plane.expect_step());
      while (const auto command = client->poll()) commands.push_back(*command);
    }
  }
  for (int64_t step = 1; step <= kSteps; ++step)
    CHECK(heard[static_cast<size_t>(step - 1)] == step);
  CHECK(plane.finish(*client));
  while (const auto command = client->poll()) commands.push_back(*command);
  CHECK(commands.size() == 3);
  CHECK(relay.connections() >= 4);
}

TEST_CASE("who is told that its epoch is over does not come again", "[rankd]") {
  auto plane = std::make_unique<TlsPlane>();
  Relay relay(port_of(plane->endpoint()));
  Bootstrap bootstrap = plane->bootstrap(0);
  bootstrap.coordinator_address = fmt::format("127.0.0.1:{}", relay.port());
  std::promise<void> lost;
  const std::unique_ptr<ControlClient> client =
      connect_control(bootstrap, [&] { lost.set_value(); });
  plane->join(*client);
  plane.reset();
  CHECK(lost.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  CHECK_FALSE(client->finish(ExitCode::kDone, ErrorOrigin::kNone, ""));
}

}  // namespace ds
