// The supervisor's ear for people and programs that ask about a run or steer it: a Unix stream socket in
// the abstract namespace, so that nothing of it is left on any disk however dslaunch ends. One line of JSON
// in, one out, and the connection is over. Only this user and root are heard (the kernel says who calls).
// Never waits: requests are read, and replies written, as the poll loop comes round; who is slow is dropped.
// Refuses to know what is asked.
#pragma once

#include <poll.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"
#include "launcher/clock_time.h"

namespace ds {

// The socket's name for the run in `directory` of user `uid`. Throws IoError if there is no such directory.
std::string control_socket_name(const std::filesystem::path& directory, unsigned uid);

class ControlSocket {
 public:
  struct Limits {
    size_t connections = 8;  // at once; more wait in the kernel's queue
    size_t request_bytes = 64 << 10;
    Time patience = std::chrono::seconds(5);  // from the connection to the reply's last byte
  };
  // Throws IoError, also when somebody listens under this name already.
  ControlSocket(const std::string& name, const Limits& limits);

  void add_poll_descriptors(std::vector<pollfd>& out) const;
  // The reply to a request line, without newlines. Must not throw.
  using Answer = std::function<std::string(std::string_view request)>;
  void serve(Time now, const Answer& answer);

  size_t connections() const { return callers_.size(); }

 private:
  struct Caller {
    Fd fd;
    Time until{};
    std::string request{};
    std::string reply{};  // what is left of it
    bool answered = false;
  };
  void accept_callers(Time now);
  bool keep(Caller& caller, const Answer& answer) const;  // false: it is over
  bool read_request(Caller& caller, const Answer& answer) const;

  const Limits limits_;
  Fd listener_;
  Time deaf_until_{};
  std::list<Caller> callers_;
};

}  // namespace ds
