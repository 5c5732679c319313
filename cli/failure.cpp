#include "cli/failure.h"

#include <algorithm>

#include "config/reader/value.h"

namespace ds {

bool wants_json(const std::vector<std::string>& arguments) {
  const auto end = std::ranges::find(arguments, "--");
  return std::find(arguments.begin(), end, "--json") != end;
}

std::string failure_json(std::string_view message, int exit_code) {
  Value error = Value::object();
  error.set("message", Value::string(std::string(message)));
  error.set("exit_code", Value::integer(exit_code));
  Value out = Value::object();
  out.set("error", std::move(error));
  return to_compact_json(out) + "\n";
}

}  // namespace ds
