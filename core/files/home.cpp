#include "core/files/home.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace ds {

namespace {

// The home folder by the user data base; of an empty name that of this process's user.
std::optional<std::string> recorded_home(const std::string& user) {
  std::vector<char> room(1 << 16);
  passwd entry{};
  passwd* found = nullptr;
  const int failed = user.empty()
                         ? getpwuid_r(getuid(), &entry, room.data(), room.size(), &found)
                         : getpwnam_r(user.c_str(), &entry, room.data(), room.size(), &found);
  if (failed != 0 || found == nullptr || found->pw_dir == nullptr) return std::nullopt;
  return found->pw_dir;
}

std::optional<std::string> home_of(const std::string& user) {
  // A shell takes the variable for its own user, whatever the data base says.
  const char* const home = user.empty() ? std::getenv("HOME") : nullptr;
  if (home != nullptr && *home != '\0') return home;
  return recorded_home(user);
}

}  // namespace

std::optional<std::string> expand_home(const std::string& path) {
  if (!path.starts_with('~')) return path;
  const size_t end = std::min(path.find('/'), path.size());
  std::optional<std::string> home = home_of(path.substr(1, end - 1));
  if (home) *home += path.substr(end);
  return home;
}

std::string user_cache_folder() {
  const auto named = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return std::string(value != nullptr ? value : "");
  };
  if (const std::string cache = named("XDG_CACHE_HOME"); cache.starts_with('/')) {
    return cache + "/dslaunch";
  }
  const std::string home = named("HOME");
  return home.starts_with('/') ? home + "/.cache/dslaunch" : "";
}

std::string no_home_text(const std::string& path) {
  const std::string front = path.substr(0, path.find('/'));
  return fmt::format("{}: no user has {} as home folder; write ./{} for a name that begins so",
                     path, front, path);
}

}  // namespace ds
