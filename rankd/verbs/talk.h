// `dslaunch generate --chat` on a terminal: messages are typed, and answered one by one.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/verbs/generate.h"
#include "core/files/file.h"

namespace ds {

struct TalkPlace {
  // The next line that was typed, after `asking` was shown; nothing: there will be none.
  std::function<std::optional<std::string>(const std::string& asking)> line;
  std::function<void(const std::string&)> print;
  std::function<void(const std::string&)> note;  // a line for the user
};

// Returns when there is no line any more, or at /exit. Throws what generate throws before the first
// message; what is wrong with a later one is noted, and it is as if it had not been typed.
void talk(FileSystem& files, const GenerateArgs& args, const TalkPlace& place);

}  // namespace ds
