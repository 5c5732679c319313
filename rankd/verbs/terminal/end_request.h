// Takes the signals that ask a verb to end (SIGINT, SIGTERM, SIGHUP), for one that first takes away
// what it has half made. A second signal ends the process at once.
#pragma once

#include <exception>

namespace ds {

// Thrown by what has been asked to end; no Error, as nothing went wrong.
class EndRequested : public std::exception {
 public:
  explicit EndRequested(int signal) : signal_(signal) {}
  int signal() const { return signal_; }
  const char* what() const noexcept override { return "asked to end"; }

 private:
  int signal_;
};

// One at a time in a process, in a thread that lives as long; signals that were ignored stay so.
class EndRequest {
 public:
  EndRequest();
  EndRequest(const EndRequest&) = delete;  // what signals do is restored once
  EndRequest& operator=(const EndRequest&) = delete;
  ~EndRequest();

  // EndRequested if a signal has come.
  static void check();
};

// Ends the process by the signal, as if nobody had taken it.
[[noreturn]] void end_by(int signal);

}  // namespace ds
