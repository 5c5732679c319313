// The supervisor's ear for people and programs that ask about a run or steer it: a Unix stream
// socket in the abstract namespace, so that nothing of it is left on any disk however dslaunch
// ends. One line of JSON in, one out, and the connection is over. Only this user and root are heard
// (the kernel says who calls). Refuses to know what is asked.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/request_server.h"

namespace ds {

// The socket's name for the run in `directory` of user `uid`. Throws IoError if there is no such
// directory.
std::string control_socket_name(const std::filesystem::path& directory, unsigned uid);

class ControlSocket {
 public:
  using Limits = RequestServer::Limits;
  // Throws IoError, also when somebody listens under this name already.
  ControlSocket(const std::string& name, const Limits& limits);

  void add_poll_descriptors(std::vector<pollfd>& out) const { server_.add_poll_descriptors(out); }
  // The reply to a request line, without newlines. Must not throw.
  using Answer = std::function<std::string(std::string_view request)>;
  void serve(Time now, const Answer& answer);

  size_t connections() const { return server_.connections(); }

 private:
  const size_t longest_request_;
  RequestServer server_;
};

}  // namespace ds
