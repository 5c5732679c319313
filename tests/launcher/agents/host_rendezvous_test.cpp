// Hosts that find each other: the file, and who is not let in.
#include "launcher/agents/host_rendezvous.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <fstream>
#include <future>

#include "core/status/error.h"
#include "launcher/agents/rendezvous_file.h"
#include "launcher/control/peer_dial.h"
#include "launcher/control/tls_stream.h"
#include "launcher/process/credentials.h"
#include "proto/build_info.h"
#include "tests/launcher/raw_tls.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::shared_ptr<const JobAuthority> authority_of_test() {
  static const auto it = make_job_authority(std::nullopt);
  return it;
}

void wait_for(const ByteChannel& channel) {
  std::vector<pollfd> watched;
  channel.add_poll_descriptors(watched);
  REQUIRE(poll(watched.data(), watched.size(), 20'000) > 0);
}

// What comes until the other side ends.
std::string read_to_end(ByteChannel& channel) {
  std::string text;
  while (channel.pump([&](std::string_view bytes) { text += bytes; })) wait_for(channel);
  return text;
}

RendezvousOptions rendezvous_at(const fs::path& file, int processes) {
  RendezvousOptions options;
  options.file = file;
  options.addresses = {"127.0.0.1"};
  options.authority = authority_of_test();
  options.processes = processes;
  options.limit = seconds(20);
  return options;
}

// Why nobody was met.
std::future<std::string> failing_rendezvous(RendezvousOptions options) {
  return std::async(std::launch::async, [options = std::move(options)] {
    try {
      meet_hosts(options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("met");
  });
}

RendezvousPlace place_of(const std::vector<std::string>& endpoints) {
  return {endpoints, "here.invalid", authority_of_test()->certificate(),
          to_hex(random_bytes(kRendezvousTokenDigits / 2))};
}

std::optional<RendezvousPlace> wait_for_place(const fs::path& file) {
  for (int i = 0; i < 1000; ++i) {
    if (auto found = read_rendezvous_file(file); found.place) return found.place;
    poll(nullptr, 0, 10);
  }
  return std::nullopt;
}

// An agent by hand: dials, and shows a token.
std::unique_ptr<TlsStream> dial_with(const RendezvousPlace& place, const std::string& token) {
  auto stream =
      std::make_unique<TlsStream>(dial(port_of(place.endpoints.front())),
                                  TlsStream::client_context(place.authority), place.server_name);
  stream->send(token);
  return stream;
}

// Answers the greeting.
void say_ready(TlsStream& stream, int rank, const std::string& build) {
  std::string greeting;
  while (greeting.find('\n') == std::string::npos) {
    wait_for(stream);
    REQUIRE(stream.pump([&](std::string_view bytes) { greeting += bytes; }));
  }
  agent::FromAgent message;
  message.mutable_ready()->set_build_id(build);
  message.mutable_ready()->set_host("node");
  message.mutable_ready()->set_start_rank(rank);
  message.mutable_ready()->add_slots();
  const std::string marker = read_greeting(greeting.substr(0, greeting.find('\n')));
  stream.send(encode_message(marker, message.SerializeAsString()));
}

}  // namespace

TEST_CASE("who does not know the token hears nothing and is cut", "[launcher][security]") {
  const testing::TemporaryDirectory here;
  const Fd enough(eventfd(0, EFD_CLOEXEC));
  RendezvousOptions options = rendezvous_at(here.path() / "rendezvous", 1);
  options.interrupt_fd = enough.get();
  std::future<std::string> failure = failing_rendezvous(options);
  const auto place = wait_for_place(here.path() / "rendezvous");
  REQUIRE(place);
  {
    const Fd silent = dial(port_of(place->endpoints.front()));
    const Fd rude = dial(port_of(place->endpoints.front()));
    REQUIRE(send(rude.get(), "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
    CHECK(is_closed(rude.get()));
  }
  std::string wrong = place->token;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  CHECK(read_to_end(*dial_with(*place, wrong)).empty());
  CHECK(read_to_end(*dial_with(*place, place->token + "0")).empty());
  eventfd_write(enough.get(), 1);
  CHECK_THAT(failure.get(), Catch::Contains("stopped while the other hosts"));
  CHECK_FALSE(fs::exists(here.path() / "rendezvous"));
}

TEST_CASE("hosts that do not come in time are counted", "[launcher]") {
  const testing::TemporaryDirectory here;
  RendezvousOptions options = rendezvous_at(here.path() / "rendezvous", 3);
  options.limit = seconds(0);
  CHECK_THROWS_WITH(meet_hosts(options), Catch::Contains("no word from 3 of 3") &&
                                             Catch::Contains("rendezvous") &&
                                             Catch::Contains("127.0.0.1:"));
  CHECK_FALSE(fs::exists(here.path() / "rendezvous"));
}

TEST_CASE("a rank uses the token once", "[launcher][security]") {
  const testing::TemporaryDirectory here;
  std::future<std::string> failure =
      failing_rendezvous(rendezvous_at(here.path() / "rendezvous", 3));
  const auto place = wait_for_place(here.path() / "rendezvous");
  REQUIRE(place);
  const auto first = dial_with(*place, place->token);
  say_ready(*first, 4, build_id());
  const auto second = dial_with(*place, place->token);
  say_ready(*second, 4, build_id());
  CHECK_THAT(failure.get(), Catch::Contains("two dslaunch") && Catch::Contains("rank 4"));
}

TEST_CASE("an agent of another build is named", "[launcher]") {
  const testing::TemporaryDirectory here;
  std::future<std::string> failure =
      failing_rendezvous(rendezvous_at(here.path() / "rendezvous", 1));
  const auto place = wait_for_place(here.path() / "rendezvous");
  REQUIRE(place);
  const auto stream = dial_with(*place, place->token);
  say_ready(*stream, 1, "build 0");
  CHECK_THAT(failure.get(),
             Catch::Contains("another build of dslaunch") && Catch::Contains("build 0"));
}

TEST_CASE("an agent that goes before all have come ends the wait", "[launcher]") {
  const testing::TemporaryDirectory here;
  std::future<std::string> failure =
      failing_rendezvous(rendezvous_at(here.path() / "rendezvous", 2));
  const auto place = wait_for_place(here.path() / "rendezvous");
  REQUIRE(place);
  const auto stream = dial_with(*place, place->token);
  say_ready(*stream, 1, build_id());
  stream->close_output();
  CHECK_THAT(failure.get(), Catch::Contains("host node, of rank 1, went again"));
}

TEST_CASE("a user who does not want to wait stops the rendezvous", "[launcher]") {
  const testing::TemporaryDirectory here;
  const Fd interrupt(eventfd(1, EFD_CLOEXEC));
  RendezvousOptions options = rendezvous_at(here.path() / "rendezvous", 1);
  options.interrupt_fd = interrupt.get();
  CHECK_THROWS_WITH(meet_hosts(options), Catch::Contains("stopped while the other hosts"));
}

TEST_CASE("an agent that meets a launcher of another job goes on looking", "[launcher][security]") {
  const testing::TemporaryDirectory here;
  const fs::path file = here.path() / "rendezvous";
  const auto other = make_job_authority(std::nullopt);
  const PeerListener listener = listen_for_dials("127.0.0.1", 0);
  const std::string token(kRendezvousTokenDigits, '0');
  std::optional<RendezvousFile> wrong(
      std::in_place, file,
      RendezvousPlace{{listener.endpoint}, "here.invalid", other->certificate(), token});
  auto agent = std::async(std::launch::async, [&] {
    return join_rendezvous(file, {}, {.start_rank = 1, .host = "node-1", .slots = {{0, {0}}}},
                           seconds(20));
  });
  pollfd arrival{listener.listener.get(), POLLIN, 0};
  REQUIRE(poll(&arrival, 1, 20'000) == 1);
  TlsStream impostor(
      Fd(accept4(listener.listener.get(), nullptr, nullptr, SOCK_CLOEXEC)),
      TlsStream::server_context(authority_of_test()->certify_coordinator({}, "here.invalid")));
  CHECK(read_to_end(impostor).empty());
  wrong.reset();
  const auto links = meet_hosts(rendezvous_at(file, 1));
  REQUIRE(links.size() == 1);
  CHECK(links[0]->host() == "node-1");
  while (!links[0]->leave(HostLink::Clock::now(), 3)) poll(nullptr, 0, 10);
  CHECK(agent.get() == 3);
}

TEST_CASE("an agent that dials is met, serves, and ends with the code it is told", "[launcher]") {
  const testing::TemporaryDirectory here;
  const fs::path file = here.path() / "rendezvous";
  auto agent = std::async(std::launch::async, [&] {
    return join_rendezvous(
        file, {}, {.start_rank = 2, .host = "node-2", .slots = {{0, {0}}, {1, {1}}}}, seconds(20));
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
    return join_rendezvous(file, {}, {.start_rank = 1, .host = "", .slots = {{0, {0}}}},
                           seconds(20));
  });
  meet_hosts(rendezvous_at(file, 1));  // and is gone at once
  CHECK(agent.get() == static_cast<int>(ExitCode::kClusterUnusable));
}

TEST_CASE("who meets nobody says where it looked", "[launcher]") {
  const testing::TemporaryDirectory here;
  const DialledAgent self{.start_rank = 3, .host = "", .slots = {{0, {0}}}};
  const auto refused = [&](const std::string& why) {
    CHECK_THROWS_WITH(join_rendezvous(here.path() / "file", {}, self, seconds(0)),
                      Catch::Contains("rank 3") && Catch::Contains(why));
  };
  refused("No such file");
  std::ofstream(here.path() / "file") << "something else\n";
  fs::permissions(here.path() / "file", fs::perms::owner_read | fs::perms::owner_write);
  refused("nothing that is understood");
  fs::permissions(here.path() / "file", fs::perms::all);
  refused("of this user alone");
  fs::remove(here.path() / "file");
  const RendezvousFile stale(here.path() / "file", place_of({"127.0.0.1:1"}));
  refused("nobody answers at 127.0.0.1:1");
}

TEST_CASE("the file of a rendezvous", "[launcher]") {
  const testing::TemporaryDirectory here;
  const fs::path path = here.path() / rendezvous_file_name("slurm 12 3");
  CHECK(rendezvous_file_name("slurm 12 3") != rendezvous_file_name("slurm 12 4"));
  const RendezvousPlace place = place_of({"10.0.0.1:5", "[fd00::1]:6"});
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
