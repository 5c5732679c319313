// Which environment variables go to the ranks on other hosts (pure): those that DeepSpeed passes
// on, those of an environment file, and those named on the command line. Nothing else travels: what
// a loader or a shell obeys (LD_PRELOAD, LD_LIBRARY_PATH, BASH_ENV) goes only where it is listed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ds {

struct EnvironmentSources {
  std::vector<std::string> ours;   // "NAME=value", all of this process
  std::string file_text;           // of --env-file or .deepspeed_env, may be empty
  std::string file_name;           // for messages
  std::vector<std::string> named;  // --env: "NAME=value", or "NAME" for our value
};

// Sorted by name, each name once; --env wins over the file, the file over what is ours. Throws
// UsageError naming the file and line, or the option, for a name that is none or is not set here.
std::vector<std::string> exported_environment(const EnvironmentSources& sources);

// Each name once, with its last value, in the order of those.
std::vector<std::string> with_last_values(const std::vector<std::string>& entries);

}  // namespace ds
