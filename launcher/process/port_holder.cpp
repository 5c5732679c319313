#include "launcher/process/port_holder.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "launcher/process/files/input_file.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

// The sockets that listen on `port`, as their links in /proc/<pid>/fd read.
std::set<std::string> listening_sockets(int port) {
  constexpr std::string_view kListening = "0A";
  const std::string wanted = fmt::format(":{:04X}", port);
  std::set<std::string> sockets;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream in(system_text(table));
    for (std::string line; std::getline(in, line);) {
      std::istringstream fields(line);
      std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
          timeout >> inode;
      if (local.ends_with(wanted) && state == kListening) {
        sockets.insert(fmt::format("socket:[{}]", inode));
      }
    }
  }
  return sockets;
}

bool holds_one_of(const fs::path& process, const std::set<std::string>& sockets) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(process / "fd", error)) {
    std::error_code unreadable;
    if (sockets.contains(fs::read_symlink(entry.path(), unreadable).string())) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<std::string> describe_port_holder(int port) {
  const std::set<std::string> sockets = listening_sockets(port);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string pid = entry.path().filename().string();
    const bool is_process = pid.find_first_not_of("0123456789") == std::string::npos;
    if (!sockets.empty() && is_process && holds_one_of(entry.path(), sockets)) {
      std::string name;
      std::istringstream(system_text(entry.path() / "comm")) >> name;
      return fmt::format("pid {} ({})", pid, name);
    }
  }
  return std::nullopt;
}

}  // namespace ds
