// The value of a variable in an environment file, read as the shell of a host does that DeepSpeed
// hands it to by pdsh (pure): $NAME and ${NAME}, ~ and ~/ at the beginning and behind a colon,
// quotes, and backslashes before $ " ' \ ` and blanks. Nothing is ever executed.
#pragma once

#include <string>
#include <string_view>

#include "launcher/decide/text/environment.h"

namespace ds {

struct ShellValue {
  std::string value;
  // The first part that a shell would have read otherwise, and that stands in the value as it is:
  // "$(date)", "${A:-b}", "~user". Empty: there is none.
  std::string left;
};

// Names that `variables` lacks are empty, as in a shell. A quote that is not closed is a character
// like others, and so are blanks: DeepSpeed puts quotes around them.
ShellValue read_shell_value(std::string_view text, const Environment& variables);

}  // namespace ds
