// What a verb with --json prints on standard output when it fails, beside the words on standard
// error (pure).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ds {

// Also of a command line that could not be parsed.
bool wants_json(const std::vector<std::string>& arguments);

// {"error": {"message": "...", "exit_code": 2}} and a newline.
std::string failure_json(std::string_view message, int exit_code);

}  // namespace ds
