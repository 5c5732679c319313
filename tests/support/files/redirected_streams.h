// What a function prints, and what it reads, where it uses the standard streams of the process: for
// verbs, whose output is their result. One thread of a test at a time.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "tests/support/files/temporary_directory.h"

namespace ds::testing {

// A standard descriptor that leads to a file as long as the object is there.
class RedirectedStream {
 public:
  RedirectedStream(int number, const std::string& path, int flags)
      : number_(number), kept_(dup(number)) {
    std::fflush(nullptr);
    const int fd = open(path.c_str(), flags | O_CLOEXEC, 0600);
    dup2(fd, number_);
    close(fd);
  }
  RedirectedStream(const RedirectedStream&) = delete;  // puts one descriptor back
  RedirectedStream& operator=(const RedirectedStream&) = delete;
  ~RedirectedStream() {
    std::fflush(nullptr);
    dup2(kept_, number_);
    close(kept_);
  }

 private:
  const int number_;
  const int kept_;
};

struct Printed {
  std::string out;
  std::string error;
};

// Runs `body` with `input` as its standard input. What it throws goes through; what it printed
// before is then lost.
inline Printed printed_by(const std::function<void()>& body, const std::string& input = "") {
  const TemporaryDirectory here;
  const std::string in = (here.path() / "in").string();
  const std::string out = (here.path() / "out").string();
  const std::string error = (here.path() / "error").string();
  std::ofstream(in, std::ios::binary) << input;
  {
    const RedirectedStream reads(STDIN_FILENO, in, O_RDONLY);
    const RedirectedStream prints(STDOUT_FILENO, out, O_WRONLY | O_CREAT);
    const RedirectedStream warns(STDERR_FILENO, error, O_WRONLY | O_CREAT);
    body();
  }
  const auto content = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  };
  return {content(out), content(error)};
}

}  // namespace ds::testing
