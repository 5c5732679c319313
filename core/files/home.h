// The "~" at the front of a path that a shell did not expand, because it stood behind an equals
// sign or in a file.
#pragma once

#include <optional>
#include <string>

namespace ds {

// "~" and "~/a" are in the home folder: $HOME, or else that of the user data base; "~user/a" is in
// that user's. Other paths are given back as they are, and nothing where there is no such user.
std::optional<std::string> expand_home(const std::string& path);

// Returns where a user's programs keep what they can do without: $XDG_CACHE_HOME/dslaunch or
// ~/.cache/dslaunch; empty if neither variable names a folder.
std::string user_cache_folder();

// What is to be said of a path of which expand_home() made nothing.
std::string no_home_text(const std::string& path);

}  // namespace ds
