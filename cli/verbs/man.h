// `dslaunch man [PAGE] [--output DIR]`.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace ds {

struct ManOptions {
  std::string page;                   // a verb, empty for dslaunch itself
  std::optional<std::string> output;  // a folder for all pages
  bool json = false;
};

void describe_man(CLI::App& app, ManOptions& values);

}  // namespace ds
