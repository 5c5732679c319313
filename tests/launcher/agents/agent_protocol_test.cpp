#include "launcher/agents/agent_protocol.h"

#include "core/status/error.h"
#include "proto/agent.pb.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

const std::string kMarker = "0123456789abcdef";

struct Heard {
  std::vector<std::string> messages;
  std::vector<std::string> text;
};

// The stream in pieces of `size` bytes.
Heard hear(const std::string& stream, size_t size) {
  Heard heard;
  MessageReader reader(kMarker);
  for (size_t at = 0; at < stream.size(); at += size) {
    reader.feed(
        std::string_view(stream).substr(at, size),
        [&](std::string_view message) { heard.messages.emplace_back(message); },
        [&](std::string_view line) { heard.text.emplace_back(line); });
  }
  return heard;
}

std::string any_bytes(size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(i * 7 + i / 251);
  return bytes;
}

}  // namespace

TEST_CASE("messages survive any cutting and any banner", "[launcher]") {
  const std::vector<std::string> messages{
      "", "a", any_bytes(719), any_bytes(720), any_bytes(721), any_bytes(100'000)};
  std::string stream = "Welcome to node-1\r\nno newline: ";
  for (const std::string& message : messages) {
    stream += encode_message(kMarker, message);
    stream += "motd\n";
  }
  for (const size_t size : {size_t{1}, size_t{7}, size_t{1023}, stream.size()}) {
    const Heard heard = hear(stream, size);
    CHECK(heard.messages == messages);
    REQUIRE(heard.text.size() == 2 + messages.size());
    CHECK(heard.text[0] == "Welcome to node-1");
    CHECK(heard.text[1] == "no newline: ");
    CHECK(heard.text[2] == "motd");
  }
}

TEST_CASE("names that are no UTF-8 reach an agent and come back as they are", "[launcher]") {
  const std::string odd = "caf\xE9";
  agent::ToAgent orders;
  orders.mutable_start()->set_directory("/data/" + odd);
  orders.mutable_start()->add_environment("MENU=" + odd);
  orders.mutable_start()->add_ranks()->add_environment("LOCAL=" + odd);
  agent::ToAgent told;
  REQUIRE(told.ParseFromString(orders.SerializeAsString()));
  CHECK(told.start().directory() == "/data/" + odd);
  CHECK(told.start().environment(0) == "MENU=" + odd);
  CHECK(told.start().ranks(0).environment(0) == "LOCAL=" + odd);
  agent::FromAgent answer;
  answer.mutable_start_failed()->set_reason("no such directory: /data/" + odd);
  agent::FromAgent heard;
  REQUIRE(heard.ParseFromString(answer.SerializeAsString()));
  CHECK(heard.start_failed().reason() == "no such directory: /data/" + odd);
}

TEST_CASE("no line is longer than srun keeps whole", "[launcher]") {
  const std::string lines = encode_message(kMarker, any_bytes(5000));
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = lines.find('\n', begin);
    CHECK(end - begin < 1000);
    begin = end + 1;
  }
}

TEST_CASE("a torn, lost, repeated or foreign line is an error, not a wrong message", "[launcher]") {
  const std::string whole = encode_message(kMarker, any_bytes(2000));
  const size_t first = whole.find('\n') + 1;
  CHECK_THROWS_AS(hear(whole.substr(first), 100), CommError);             // lost
  CHECK_THROWS_AS(hear(whole.substr(0, first) + whole, 100), CommError);  // repeated
  CHECK_THROWS_AS(hear(whole.substr(0, 100) + "\n" + whole.substr(100), 64), CommError);  // torn
  CHECK_THROWS_AS(hear(kMarker + "\n", 64), CommError);
  CHECK_THROWS_AS(hear(kMarker + "x00000000\n", 64), CommError);
  std::string flipped = whole;
  flipped[60] = flipped[60] == 'A' ? 'B' : 'A';
  CHECK_THROWS_AS(hear(flipped, 64), CommError);
  CHECK(hear("fedcba9876543210.00000000\n", 64).messages.empty());  // another job's marker
}

TEST_CASE("an agent accepts nothing but a greeting", "[launcher]") {
  std::string line = greeting_line(kMarker);
  line.pop_back();
  CHECK(read_greeting(line) == kMarker);
  CHECK_THROWS_AS(read_greeting(""), UsageError);
  CHECK_THROWS_AS(read_greeting("hello"), UsageError);
  CHECK_THROWS_AS(read_greeting(line + "0"), UsageError);
}

}  // namespace ds
