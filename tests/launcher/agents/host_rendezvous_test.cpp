// Hosts that find each other: the file, the encrypted connection, and who is not let in.
#include "launcher/agents/host_rendezvous.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <fstream>
#include <future>

#include "core/error.h"
#include "launcher/agents/rendezvous_file.h"
#include "launcher/control/client_hello.h"
#include "launcher/control/tls_relay.h"
#include "launcher/process/credentials.h"
#include "proto/build_info.h"
#include "tests/launcher/raw_tls.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

namespace ds {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Pair {
  std::unique_ptr<TlsRelay> server;
  std::unique_ptr<TlsRelay> client;
};

Pair relays(const std::string& server_secret, const std::string& client_secret) {
  std::array<int, 2> ends{};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  Pair out;
  out.server =
      std::make_unique<TlsRelay>(TlsRelay::Role::kServer, Fd(ends[0]), server_secret, seconds(10));
  out.client =
      std::make_unique<TlsRelay>(TlsRelay::Role::kClient, Fd(ends[1]), client_secret, seconds(10));
  return out;
}

std::string read_to_end(const Fd& fd) {
  std::string text;
  std::array<char, 4096> bytes{};
  ssize_t got = 0;
  while ((got = read(fd.get(), bytes.data(), bytes.size())) > 0) {
    text.append(bytes.data(), static_cast<size_t>(got));
  }
  return text;
}

RendezvousOptions rendezvous_at(const fs::path& file, int processes) {
  RendezvousOptions options;
  options.file = file;
  options.addresses = {"127.0.0.1"};
  options.processes = processes;
  options.limit = seconds(20);
  return options;
}

std::optional<RendezvousPlace> wait_for_place(const fs::path& file) {
  for (int i = 0; i < 1000; ++i) {
    if (auto found = read_rendezvous_file(file); found.place) return found.place;
    poll(nullptr, 0, 10);
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("a relay carries bytes both ways, and the end", "[launcher]") {
  const std::string secret = random_bytes(kRelaySecretBytes);
  const Pair pair = relays(secret, secret);
  const Fd at_server = pair.server->take_input();
  const Fd at_client = pair.client->take_input();
  std::string sent(1 << 20, 'x');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>('a' + i % 23);
  auto writer = std::async(std::launch::async, [&, fd = pair.client->take_output()]() mutable {
    size_t done = 0;
    while (done < sent.size()) {
      const ssize_t wrote = write(fd.get(), sent.data() + done, sent.size() - done);
      if (wrote <= 0) return false;
      done += static_cast<size_t>(wrote);
    }
    fd = Fd();
    return true;
  });
  {
    const Fd answer = pair.server->take_output();
    REQUIRE(write(answer.get(), "hello", 5) == 5);
    std::string heard(5, '\0');
    REQUIRE(read(at_client.get(), heard.data(), 5) == 5);
    CHECK(heard == "hello");
    CHECK(read_to_end(at_server) == sent);
    CHECK(writer.get());
  }
}

TEST_CASE("another secret hears nothing", "[launcher]") {
  const Pair pair = relays(random_bytes(kRelaySecretBytes), random_bytes(kRelaySecretBytes));
  const Fd to_client = pair.server->take_output();
  signal(SIGPIPE, SIG_IGN);  // the handshake may have failed by now
  const ssize_t wrote = write(to_client.get(), "orders", 6);
  CHECK((wrote == 6 || wrote == -1));
  CHECK(read_to_end(pair.client->take_input()).empty());
  CHECK(read_to_end(pair.server->take_input()).empty());
}

TEST_CASE("a host shows that it knows the secret, not the secret", "[launcher][security]") {
  const std::string secret = random_bytes(kRelaySecretBytes);
  CHECK(server_name_for(secret) == server_name_for(secret));
  CHECK(server_name_for(secret) != server_name_for(random_bytes(kRelaySecretBytes)));
  std::array<int, 2> ends{};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const Fd server(ends[1]);
  const TlsRelay client(TlsRelay::Role::kClient, Fd(ends[0]), secret, seconds(10));
  std::array<char, 4096> bytes{};
  const ssize_t got = read(server.get(), bytes.data(), bytes.size());
  REQUIRE(got > 0);
  const std::string_view said(bytes.data(), static_cast<size_t>(got));
  CHECK(read_client_hello(said).server_name == server_name_for(secret));
  CHECK(said.find(secret) == std::string_view::npos);
}

TEST_CASE("TLS without the secret is refused", "[launcher]") {
  const testing::TemporaryDirectory here;
  auto rendezvous = std::async(std::launch::async, [&] {
    RendezvousOptions options = rendezvous_at(here.path() / "rendezvous", 1);
    options.limit = seconds(2);
    try {
      meet_hosts(options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("met");
  });
  const auto place = wait_for_place(here.path() / "rendezvous");
  REQUIRE(place);
  const int port = port_of(place->endpoints.front());
  {
    const Fd silent = dial(port);
    const Fd rude = dial(port);
    REQUIRE(send(rude.get(), "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
    CHECK(is_closed(rude.get()));
  }
  const std::string answer = rendezvous.get();
  CHECK_THAT(answer, Catch::Contains("no word from 1 of 1") && Catch::Contains("rendezvous"));
  CHECK_FALSE(fs::exists(here.path() / "rendezvous"));
}

TEST_CASE("an agent that dials is met, serves, and ends with the code it is told", "[launcher]") {
  const testing::TemporaryDirectory here;
  const fs::path file = here.path() / "rendezvous";
  auto agent = std::async(std::launch::async, [&] {
    return join_rendezvous(
        file, {},
        {.start_rank = 2, .host = "node-2", .slot_cores = {{0}, {1}}, .input = {}, .output = {}},
        seconds(20));
  });
  std::vector<std::unique_ptr<HostLink>> links = meet_hosts(rendezvous_at(file, 2));
  REQUIRE(links.size() == 1);
  CHECK(links[0]->host() == "node-2");
  CHECK(links[0]->ready()->start_rank() == 2);
  CHECK(links[0]->ready()->slots_size() == 2);
  CHECK(links[0]->ready()->address() == "127.0.0.1");
  CHECK_FALSE(fs::exists(file));
  while (!links[0]->leave(HostLink::Clock::now(), 75)) poll(nullptr, 0, 10);
  CHECK(agent.get() == 75);
}

TEST_CASE("an agent whose launcher is lost ends with 69", "[launcher]") {
  const testing::TemporaryDirectory here;
  const fs::path file = here.path() / "rendezvous";
  auto agent = std::async(std::launch::async, [&] {
    return join_rendezvous(
        file, {}, {.start_rank = 1, .host = "", .slot_cores = {{0}}, .input = {}, .output = {}},
        seconds(20));
  });
  meet_hosts(rendezvous_at(file, 1));  // and is gone at once
  CHECK(agent.get() == static_cast<int>(ExitCode::kClusterUnusable));
}

TEST_CASE("who meets nobody says where it looked", "[launcher]") {
  const testing::TemporaryDirectory here;
  const DialledAgent self{
      .start_rank = 3, .host = "", .slot_cores = {{0}}, .input = {}, .output = {}};
  const auto refused = [&](const std::string& why) {
    DialledAgent again{.start_rank = 3, .host = "", .slot_cores = {{0}}, .input = {}, .output = {}};
    CHECK_THROWS_WITH(join_rendezvous(here.path() / "file", {}, again, seconds(0)),
                      Catch::Contains("rank 3") && Catch::Contains(why));
  };
  refused("No such file");
  std::ofstream(here.path() / "file") << "something else\n";
  fs::permissions(here.path() / "file", fs::perms::owner_read | fs::perms::owner_write);
  refused("nothing that is understood");
  fs::permissions(here.path() / "file", fs::perms::all);
  refused("of this user alone");
  fs::remove(here.path() / "file");
  const RendezvousFile stale(here.path() / "file",
                             {{"127.0.0.1:1"}, random_bytes(kRelaySecretBytes)});
  refused("nobody answers at 127.0.0.1:1");
}

TEST_CASE("the file of a rendezvous", "[launcher]") {
  const testing::TemporaryDirectory here;
  const fs::path path = here.path() / rendezvous_file_name("slurm 12 3");
  CHECK(rendezvous_file_name("slurm 12 3") != rendezvous_file_name("slurm 12 4"));
  const RendezvousPlace place{{"10.0.0.1:5", "[fd00::1]:6"}, random_bytes(kRelaySecretBytes)};
  CHECK(parse_rendezvous(rendezvous_text(place)) == place);
  {
    const RendezvousFile file(path, place);
    struct stat info {};
    REQUIRE(stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    CHECK(read_rendezvous_file(path).place == place);
  }
  CHECK_FALSE(fs::exists(path));
  fs::create_symlink("/etc/hostname", path);
  CHECK_FALSE(read_rendezvous_file(path).place);
  const std::string text = rendezvous_text(place);
  for (size_t cut = 0; cut < text.size() - 1; ++cut) {
    CHECK_FALSE(parse_rendezvous(text.substr(0, cut)));
  }
  CHECK_THROWS_WITH(RendezvousFile(here.path() / "no" / "folder", place),
                    Catch::Contains("shared by all hosts"));
}

}  // namespace ds
