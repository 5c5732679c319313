// What the two ways between a launcher and an agent have in common, and whom the one over a network
// believes.
#include "launcher/control/byte_channel.h"

#include <signal.h>
#include <sys/socket.h>

#include <array>

#include "core/status/error.h"
#include "launcher/control/client_hello.h"
#include "launcher/control/tls_stream.h"
#include "launcher/process/process.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

constexpr const char* kName = "here.invalid";

struct Pair {
  std::unique_ptr<ByteChannel> launcher;
  std::unique_ptr<ByteChannel> agent;
};

std::array<Fd, 2> socket_pair() {
  std::array<int, 2> ends{};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

Pair by_pipes() {
  PipeEnds down = make_pipe();
  PipeEnds up = make_pipe();
  return {std::make_unique<PipeChannel>(std::move(up.read), std::move(down.write)),
          std::make_unique<PipeChannel>(std::move(down.read), std::move(up.write))};
}

// The agent believes `believed` and wants a launcher of this name.
Pair by_tls(const JobAuthority& of_launcher, const JobAuthority& believed,
            const std::string& wanted) {
  std::array<Fd, 2> ends = socket_pair();
  return {std::make_unique<TlsStream>(
              std::move(ends[0]),
              TlsStream::server_context(of_launcher.certify_coordinator({}, kName))),
          std::make_unique<TlsStream>(std::move(ends[1]),
                                      TlsStream::client_context(believed.certificate()), wanted)};
}

Pair pair_of(std::string_view kind) {
  signal(SIGPIPE, SIG_IGN);
  const auto authority = make_job_authority(std::nullopt);
  return kind == "pipes" ? by_pipes() : by_tls(*authority, *authority, kName);
}

// Both ends in turn until `done`; what comes is dropped but for what `agent` hears.
std::string pump_until(const Pair& pair, const std::function<bool(const std::string&)>& done) {
  std::string at_agent;
  for (int i = 0; i < 100'000 && !done(at_agent); ++i) {
    pair.launcher->pump([](std::string_view) {});
    pair.agent->pump([&](std::string_view bytes) { at_agent += bytes; });
  }
  return at_agent;
}

}  // namespace

TEST_CASE("a channel carries more than fits at once, both ways", "[launcher]") {
  const Pair pair = pair_of(GENERATE("pipes", "tls"));
  std::string sent(1 << 20, 'x');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>('a' + i % 23);
  pair.launcher->send(sent);
  CHECK(pair.launcher->waiting() > 0);
  CHECK(pump_until(pair, [&](const std::string& heard) { return heard.size() >= sent.size(); }) ==
        sent);
  CHECK(pair.launcher->waiting() == 0);
  pair.agent->send("answer");
  std::string answer;
  CHECK(pair.launcher->pump([&](std::string_view bytes) { answer += bytes; }));
  CHECK(answer == "answer");
}

TEST_CASE("who has closed its output still hears what was said, and the other hears the end",
          "[launcher]") {
  const Pair pair = pair_of(GENERATE("pipes", "tls"));
  pair.launcher->send("hello");
  REQUIRE(pump_until(pair, [](const std::string& heard) { return !heard.empty(); }) == "hello");
  pair.agent->send("last words");
  pair.launcher->close_output();
  pair.launcher->close_output();
  std::string heard;
  pair.launcher->pump([&](std::string_view bytes) { heard += bytes; });
  CHECK(heard == "last words");
  CHECK_FALSE(pair.agent->pump([](std::string_view) {}));
}

TEST_CASE("what nobody reads any more is dropped, and said", "[launcher]") {
  Pair pair = pair_of(GENERATE("pipes", "tls"));
  pair.launcher->send(std::string(1 << 20, 'x'));
  SECTION("the other end is gone") { pair.agent.reset(); }
  SECTION("it was closed here") { pair.launcher->close(); }
  CHECK_FALSE(pair.launcher->pump([](std::string_view) {}));
  CHECK(pair.launcher->waiting() == 0);
  std::vector<pollfd> watched;
  pair.launcher->add_poll_descriptors(watched);
  CHECK(watched.empty());
}

TEST_CASE("a launcher with the certificate of another job or name hears and says nothing",
          "[launcher][security]") {
  const auto ours = make_job_authority(std::nullopt);
  const auto other = make_job_authority(std::nullopt);
  const bool by_name = GENERATE(false, true);
  const Pair pair = by_name ? by_tls(*ours, *ours, "there.invalid") : by_tls(*other, *ours, kName);
  pair.agent->send("token");
  pair.launcher->send("orders");
  std::string heard;
  const auto hear = [&](std::string_view bytes) { heard += bytes; };
  for (int i = 0; i < 1000 && pair.agent->pump(hear); ++i) pair.launcher->pump(hear);
  CHECK_FALSE(pair.launcher->pump(hear));
  CHECK(heard.empty());
  CHECK_THAT(dynamic_cast<const TlsStream&>(*pair.agent).problem(),
             Catch::Contains("its certificate is not of this job"));
  CHECK(pair.agent->waiting() == 0);
  CHECK_THROWS_AS(TlsStream::client_context("no certificate"), CommError);
}

TEST_CASE("what a host says in clear names the launcher and nothing secret",
          "[launcher][security]") {
  std::array<Fd, 2> ends = socket_pair();
  const std::string token(64, 'a');
  TlsStream client(std::move(ends[0]),
                   TlsStream::client_context(make_job_authority(std::nullopt)->certificate()),
                   kName);
  client.send(token);
  std::array<char, 4096> bytes{};
  const ssize_t got = read(ends[1].get(), bytes.data(), bytes.size());
  REQUIRE(got > 0);
  const std::string_view said(bytes.data(), static_cast<size_t>(got));
  CHECK(read_client_hello(said).server_name == kName);
  CHECK(said.find(token) == std::string_view::npos);
}

}  // namespace ds
