// The command line of dslaunch, parsed into the verb that is meant and its values. Options may
// stand before and after the other words. What files say is not looked at.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cli/verb.h"

namespace ds {

struct ParsedVerb {
  const Verb* verb = nullptr;
  std::unique_ptr<VerbLine> line;
};

// Text to print, then exit 0: help.
struct InfoText {
  std::string text;
};

using ParsedLine = std::variant<ParsedVerb, InfoText>;

// `arguments` without argv[0]; where the first is no verb, `run` is meant, unless it is written as
// a verb and no file has that name. Throws UsageError, which says the nearest word that is
// understood and where to read more.
ParsedLine parse_line(const std::vector<std::string>& arguments);

}  // namespace ds
