#include "launcher/process/send_queue.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <random>

#include "launcher/process/process.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

std::string read_some(const Fd& fd, size_t most) {
  std::string out(most, '\0');
  const ssize_t got = read(fd.get(), out.data(), most);
  out.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return out;
}

bool wants_to_write(const SendQueue& queue) {
  std::vector<pollfd> watched;
  queue.add_poll_descriptor(watched);
  return !watched.empty();
}

}  // namespace

TEST_CASE("bytes arrive in order through a pipe that is full again and again", "[launcher]") {
  PipeEnds pipe = make_pipe();
  REQUIRE(fcntl(pipe.write.get(), F_SETPIPE_SZ, 4096) == 4096);
  fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  SendQueue queue(std::move(pipe.write));
  std::mt19937 random(7);
  std::string sent;
  std::string received;
  for (int round = 0; round < 300; ++round) {
    std::string piece(random() % 1500, static_cast<char>('a' + round % 26));
    queue.push(piece);
    sent += piece;
    REQUIRE(queue.flush());
    if (random() % 2 == 0) received += read_some(pipe.read, random() % 3000);
    CHECK(wants_to_write(queue) == (queue.waiting() > 0));
  }
  while (received.size() < sent.size()) {
    received += read_some(pipe.read, 4096);
    REQUIRE(queue.flush());
  }
  CHECK(received == sent);
  CHECK(queue.waiting() == 0);
}

TEST_CASE("a reader that is gone is noticed when something is to be written", "[launcher]") {
  signal(SIGPIPE, SIG_IGN);
  PipeEnds pipe = make_pipe();
  SendQueue queue(std::move(pipe.write));
  pipe.read = Fd();
  CHECK(queue.flush());  // nothing to say, so nobody is missed
  queue.push("order");
  CHECK_FALSE(queue.flush());
}

TEST_CASE("a queue that is closed takes no poll and writes nothing more", "[launcher]") {
  PipeEnds pipe = make_pipe();
  SendQueue queue(std::move(pipe.write));
  queue.push("order");
  CHECK(wants_to_write(queue));
  queue.close();
  CHECK_FALSE(wants_to_write(queue));
  CHECK_FALSE(queue.flush());
  CHECK(read_some(pipe.read, 10).empty());
}

}  // namespace ds
