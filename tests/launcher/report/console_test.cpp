#include "launcher/report/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <sstream>

#include "launcher/process/process.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

std::string read_all(int fd) {
  std::string out;
  std::array<char, 4096> bytes{};
  for (ssize_t got = 0; (got = read(fd, bytes.data(), bytes.size())) > 0;) {
    out.append(bytes.data(), static_cast<size_t>(got));
  }
  return out;
}

Console::Options to(const PipeEnds& out, const PipeEnds& error) {
  Console::Options options;
  options.line_fd = options.result_fd = out.write.get();
  options.error_fd = error.write.get();
  return options;
}

}  // namespace

TEST_CASE("lines, errors and results go where they belong", "[launcher]") {
  PipeEnds out = make_pipe();
  PipeEnds error = make_pipe();
  {
    Console console(to(out, error));
    console.line("step 1");
    console.error("no such thing");
    console.rank_output(3, "warning");
    console.raw_error("{}");
    console.result("{\"exit_code\": 0}\n");
    console.set_live("not on a pipe");
  }
  out.write = Fd();
  error.write = Fd();
  CHECK(read_all(out.read.get()) == "step 1\n{\"exit_code\": 0}\n");
  CHECK(read_all(error.read.get()) == "error: no such thing\n[rank 3] warning\n{}\n");
}

TEST_CASE("what others say steers no terminal, and results are what they are", "[launcher]") {
  PipeEnds out = make_pipe();
  PipeEnds error = make_pipe();
  {
    Console::Options options = to(out, error);
    options.colour = true;
    Console console(options);
    console.line("\x1b[2J");
    console.closing_line("\r");
    console.error("\a");
    console.rank_output(3,
                        "\xC2\x9B"
                        "31m");
    console.raw_error("\x7F");
    console.result("\x1b[1m\xff");
  }
  out.write = Fd();
  error.write = Fd();
  CHECK(read_all(out.read.get()) == "\\u001b[2J\n\\u000d\n\x1b[1m\xff");
  CHECK(read_all(error.read.get()) ==
        "\x1b[1;31merror:\x1b[0m \\u0007\n[rank 3] \\u009b31m\n\\u007f\n");
}

TEST_CASE("a terminal gets no lines for machines", "[launcher]") {
  PipeEnds out = make_pipe();
  PipeEnds error = make_pipe();
  {
    Console::Options options = to(out, error);
    options.live = true;
    Console console(options);
    console.raw_error("{}");
    console.error("in words");
  }
  error.write = Fd();
  CHECK(read_all(error.read.get()) == "error: in words\n");
}

TEST_CASE("a reader that takes nothing costs lines and no time; they are counted", "[launcher]") {
  PipeEnds out = make_pipe();
  PipeEnds error = make_pipe();
  fcntl(out.read.get(), F_SETFL, O_NONBLOCK);
  std::string said;
  int sent = 0;
  {
    Console::Options options = to(out, error);
    options.most_waiting = 1000;
    Console console(options);
    for (; sent < 2000; ++sent) console.line(std::string(99, 'x'));  // a pipe holds 64 KiB
    console.error("still heard");
    for (; said.find("not shown") == std::string::npos; ++sent) {
      console.line("after it");
      said += read_all(out.read.get());
    }
  }
  out.write = Fd();
  error.write = Fd();
  said += read_all(out.read.get());
  CHECK(read_all(error.read.get()) == "error: still heard\n");
  int shown = 0;
  int not_shown = 0;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('(')) {
      not_shown += std::stoi(line.substr(1));
    } else {
      ++shown;
    }
  }
  CHECK(not_shown > 1000);
  CHECK(shown + not_shown == sent);
}

TEST_CASE("the end waits for a reader that takes something, and not for one that does not",
          "[launcher]") {
  PipeEnds out = make_pipe();
  PipeEnds error = make_pipe();
  {
    Console::Options options = to(out, error);
    options.patience = std::chrono::milliseconds(20);
    Console console(options);
    std::signal(SIGPIPE, SIG_IGN);  // as in the launcher
    console.line(std::string(1 << 18, 'x'));
  }
  out.read = Fd();  // frees the thread that waits
  (void)out.write
      .release();  // whose descriptor must not become another test's before it has seen that
}

}  // namespace ds
