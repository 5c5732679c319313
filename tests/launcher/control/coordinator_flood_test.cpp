// Somebody on a rank's own host connects as fast as it can while the rank joins.
#include <atomic>
#include <deque>
#include <functional>

#include "tests/launcher/raw_tls.h"
#include "tests/launcher/tls_plane.h"

namespace ds {
namespace {

// A TLS hello that names a server.
std::string hello_for(const std::string& server_name) {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL* const ssl = SSL_new(context);
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
  SSL_set_tlsext_host_name(ssl, server_name.c_str());
  SSL_set_connect_state(ssl);
  SSL_do_handshake(ssl);  // waits for an answer
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  std::string hello(bytes, static_cast<size_t>(size));
  SSL_free(ssl);
  SSL_CTX_free(context);
  return hello;
}

Fd try_dial(int port) {
  Fd connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(connection.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0
             ? std::move(connection)
             : Fd();
}

// Says `first` on each connection and keeps the last `held` of them open.
class Flood {
 public:
  Flood(int port, std::string first, size_t held) {
    for (int i = 0; i < 3; ++i) {
      threads_.emplace_back([this, port, first, held] {
        std::deque<Fd> open;
        while (!ending_) {
          open.push_back(try_dial(port));
          if (!first.empty()) send(open.back().get(), first.data(), first.size(), MSG_NOSIGNAL);
          if (open.size() > held) open.pop_front();
        }
      });
    }
  }
  Flood(const Flood&) = delete;  // the threads hold `this`
  Flood& operator=(const Flood&) = delete;
  ~Flood() {
    ending_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> ending_ = false;
  std::vector<std::thread> threads_;
};

// One failure, and strangers of its host are not heard for the rest of the test.
ConnectionRules::Options unforgiving() {
  return {.max_stranger_failures = 1, .failure_window = std::chrono::hours(1)};
}

void check_join_in_flood(const std::string& first, size_t held) {
  TlsPlane plane(2, "127.0.0.1", unforgiving());
  const Flood flood(port_of(plane.endpoint()), first, held);
  while (plane.coordinator().strangers_turned_away() < 200) std::this_thread::yield();
  plane.check_open(0);
  plane.check_open(1);
}

}  // namespace

TEST_CASE("a loop that connects and closes keeps no rank of its host out", "[launcher][security]") {
  check_join_in_flood("", 0);
}

TEST_CASE("a loop that connects and says nothing keeps no rank of its host out",
          "[launcher][security]") {
  check_join_in_flood("", 100);  // more than there are places
}

TEST_CASE("a loop that talks nonsense keeps no rank of its host out", "[launcher][security]") {
  check_join_in_flood("GET / HTTP/1.1\r\n\r\n", 0);
}

TEST_CASE("a loop that asks for another server keeps no rank of its host out",
          "[launcher][security]") {
  check_join_in_flood(hello_for("0123456789abcdef0123456789abcdef.invalid"), 5);
}

TEST_CASE("the name alone opens nothing", "[launcher][security]") {
  TlsPlane plane(2, "127.0.0.1",
                 {.max_acquaintance_failures = 3, .failure_window = std::chrono::hours(1)});
  const std::string hello = hello_for(plane.coordinator().name());
  const int port = port_of(plane.endpoint());
  for (int i = 0; i < 4; ++i) {
    const Fd overheard = dial(port);
    send(overheard.get(), hello.data(), hello.size(), MSG_NOSIGNAL);
    shutdown(overheard.get(), SHUT_WR);
    CHECK(is_closed(overheard.get()));
  }
  while (plane.coordinator().strangers_turned_away() < 4)
    std::this_thread::yield();  // seen a moment later
  CHECK(plane.coordinator().take_events().empty());
}

TEST_CASE("a dropped caller's port is free at once", "[launcher][security]") {
  TlsPlane plane(2, "127.0.0.1", {.max_strangers = 1});
  const int port = port_of(plane.endpoint());
  std::vector<Fd> strangers;
  for (int i = 0; i < 8; ++i) strangers.push_back(dial(port));
  char byte = 0;
  CHECK(recv(strangers.front().get(), &byte, 1, 0) == -1);  // a reset, after which nothing lingers
  CHECK(errno == ECONNRESET);
}

TEST_CASE("a rank may greet in pieces", "[launcher][security]") {
  TlsPlane plane(2, "127.0.0.1", unforgiving());
  const int port = port_of(plane.endpoint());
  { const Fd failing = dial(port); }
  while (plane.coordinator().strangers_turned_away() < 1) std::this_thread::yield();
  const std::string hello = hello_for(plane.coordinator().name());
  const Fd slow = dial(port);
  for (const char byte : hello) REQUIRE(send(slow.get(), &byte, 1, MSG_NOSIGNAL) == 1);
  char answer = 0;
  CHECK(recv(slow.get(), &answer, 1, 0) == 1);  // of the server, which heard it all
}

}  // namespace ds
