// `dslaunch man [PAGE] [--output DIR]`.
#pragma once

#include <optional>
#include <string>

namespace ds {

class VerbApp;

struct ManOptions {
  std::string page;                   // a verb, empty for dslaunch itself
  std::optional<std::string> output;  // a folder for all pages
  bool json = false;
};

void describe_man(VerbApp& app, ManOptions& values);

}  // namespace ds
