// Which environment variables go to the ranks on other hosts (pure): those that DeepSpeed passes
// on, those of environment files, and those named on the command line. Nothing else travels: what
// a loader or a shell obeys (LD_PRELOAD, LD_LIBRARY_PATH, BASH_ENV) goes only where it is listed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ds {

enum class ValuesOfFile {
  kLiteral,   // --env-file: they are taken as they are, as Docker does with its own
  kForShell,  // .deepspeed_env: each host reads them as its shell would
};

struct EnvironmentFile {
  std::string name;  // for messages
  std::string text;
  ValuesOfFile values = ValuesOfFile::kForShell;
};

struct EnvironmentSources {
  std::vector<std::string> ours;       // "NAME=value", all of this process
  std::vector<EnvironmentFile> files;  // --env-file, or each .deepspeed_env; later ones win
  std::vector<std::string> named;      // --env: "NAME=value", or "NAME" for our value
};

struct ExportedVariables {
  std::vector<std::string> values;  // "NAME=value", sorted, each name once
  // "NAME=text" of files for shells, in their order: each host reads the text as its shell would
  // (launcher/decide/text/shell_value), after all values.
  std::vector<std::string> shell_values{};
  // For the user: what no host will read as a shell does. Values may be secret and are not shown.
  std::vector<std::string> notes{};
};

// --env wins over the files, the files over what is ours. A line of a file is NAME=TEXT, with or
// without "export" before it, or NAME for our value; blanks around both, empty lines, comments and
// a byte order mark are nothing. Throws UsageError naming the file and line, or the option, for a
// name that is none or is not set here.
ExportedVariables exported_environment(const EnvironmentSources& sources);

// Both together on a host whose own variables are `environment`.
std::vector<std::string> with_shell_values(std::vector<std::string> environment,
                                           const std::vector<std::string>& shell_values);

// With the number of threads of a rank: libraries that bring their own must not take more than its
// share.
std::vector<std::string> rank_environment(const std::vector<std::string>& entries, int threads);

// Without what rank_environment() adds.
std::vector<std::string> without_threads(std::vector<std::string> entries);

// "A B C" of what ranks on other hosts get. Values may be nobody's business.
std::string names_of(const ExportedVariables& exported);

// Each name once, with its last value, in the order of those.
std::vector<std::string> with_last_values(const std::vector<std::string>& entries);

}  // namespace ds
