#include "cli/option_kinds.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/duration.h"
#include "core/error.h"

namespace ds {

CLI::Validator count_check() { return CLI::Range(1, 1 << 16).description(""); }

CLI::Option* add_duration(CLI::App& app, const std::string& name, std::optional<std::chrono::nanoseconds>& value,
                          const std::string& description) {
  const auto take = [&value](const std::string& text) { value = parse_duration(text); };
  return app.add_option_function<std::string>(name, take, description)->type_name("TIME");
}

void add_overrides(CLI::App& app, std::vector<std::string>& overrides) {
  app.add_option("overrides", overrides, "key.path=value changes the config, ~key.path removes a key")
      ->type_name("KEY=VALUE");
}

void check_overrides(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    if (!text.starts_with('~') && text.find('=') == std::string::npos) {
      throw UsageError(fmt::format("'{}': expected key.path=value or ~key.path", text));
    }
  }
}

void add_run_directory(CLI::App& app, std::string& run) {
  app.add_option("run", run, "The run directory")->capture_default_str()->type_name("RUN_DIR");
}

}  // namespace ds
