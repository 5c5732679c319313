// The asking end of launcher/control/control_socket.h: one request, one reply.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/control/run_status.h"
#include "launcher/decide/text/clock_time.h"

namespace ds {

// The reply line; nothing where nobody listens under this name. Throws Error(kClusterUnusable)
// where a stranger listens (neither `owner` nor root), or where no whole reply comes within
// `patience`.
std::optional<std::string> query_socket(const std::string& name, std::string_view request,
                                        Time patience, unsigned owner = geteuid());

struct ControlReply {
  std::string notice;  // what was done, in words; empty for a mere question
  RunStatus status;
};

// What the dslaunch that runs in `directory` answers to a request of
// launcher/control/control_request.h; nothing where none does. A directory of another user is
// looked for under that user too (root may ask). Throws what query_socket() throws,
// Error(kClusterUnusable) with its words where it refuses, DataError.
std::optional<ControlReply> query_run(const std::filesystem::path& directory,
                                      std::string_view request);

}  // namespace ds
