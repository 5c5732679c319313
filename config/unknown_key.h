// What is said of a key that nobody knows (pure).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/reader/problem.h"

namespace ds {

struct UnknownKey {
  Severity severity = Severity::kError;
  std::string message;
};

// What to say of a key that is not known in `section` ("" is the document): under which condition
// the section has it ("type is SGD or MuSGD"), in which other sections it stands, what it is called
// here that another trainer calls so, or the nearest of its `siblings`. It is a note where a
// release of DeepSpeed reads past the key (config/ignored_keys.h), unless it is a slip for one of
// its siblings.
UnknownKey unknown_key(std::string_view section, std::string_view key,
                       const std::vector<std::string>& siblings);

// The same as an error says it, which a key that is typed on the command line gets in any case.
std::string unknown_key_text(std::string_view section, std::string_view key,
                             const std::vector<std::string>& siblings);

// Whether that is a note.
bool is_passed_over(std::string_view section, std::string_view key,
                    const std::vector<std::string>& siblings);

}  // namespace ds
