#include "cli/option_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/duration.h"
#include "cli/number_checks.h"
#include "cli/typing.h"
#include "config/reader/secret_keys.h"
#include "core/status/error.h"
#include "core/text/device_name.h"

namespace ds {

ValueCheck count_check() { return whole_check(1, 1 << 16); }

ValueCheck choice_check(const std::vector<std::string>& choices) {
  const auto check = [choices](const std::string& value) {
    return std::ranges::find(choices, value) != choices.end() ? std::string()
                                                              : unknown_choice(value, choices);
  };
  return ValueCheck(check, fmt::format("{{{}}}", fmt::join(choices, ",")));
}

VerbOption* add_duration(VerbApp& app, const std::string& name,
                         std::optional<std::chrono::nanoseconds>& value,
                         const std::string& description) {
  const auto take = [&value](const std::string& text) { value = parse_duration(text); };
  return app.add_option(name, take, description)->type_name("TIME");
}

VerbOption* add_bytes(VerbApp& app, const std::string& name, int64_t& value,
                      const std::string& description) {
  const auto take = [&value](const std::string& text) { value = parse_size(text).value(); };
  return app.add_option(name, take, description)->check(size_check())->type_name("BYTES");
}

void add_overrides(VerbApp& app, std::vector<std::string>& overrides) {
  app.add_option("overrides", overrides,
                 "key.path=value changes the config, ~key.path removes a key")
      ->type_name("KEY=VALUE");
}

void check_overrides(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    if (!text.starts_with('~') && text.find('=') == std::string::npos) {
      throw UsageError(
          fmt::format("'{}': expected key.path=value or ~key.path", shown_override(text)));
    }
  }
}

void add_model_source(VerbApp& app, std::string& source) {
  app.add_option("source", source,
                 "Run directory, checkpoint tag, Hugging Face folder, or folder of adapters")
      ->type_name("DIR")
      ->required();
}

void add_destination(VerbApp& app, std::string& destination) {
  app.add_option("destination", destination, "The folder to write, which is not there yet")
      ->type_name("DST")
      ->required();
}

void add_base(VerbApp& app, std::optional<std::string>& base) {
  app.add_option("--base", base,
                 "Of adapters alone: the folder of the model that they belong to (default: the one "
                 "that their adapter_config.json names)")
      ->type_name("FOLDER");
}

void add_tokenizer_of_model(VerbApp& app, std::string& tokenizer) {
  app.add_option("--tokenizer", tokenizer,
                 "byte, a tokenizer's file, or a folder with one (default: the model's)")
      ->type_name("NAME");
}

VerbOption* add_dtype(VerbApp& app, std::string& dtype, const std::string& description) {
  return app.add_option("--dtype", dtype, description)
      ->check(choice_check({"fp32", "bf16", "fp16"}))
      ->type_name("TYPE");
}

void add_device(VerbApp& app, std::string& device) {
  const auto check = [](const std::string& name) {
    try {
      device_named(name);
      return std::string();
    } catch (const ConfigError& unknown) {
      return std::string(unknown.what());
    }
  };
  app.add_option("--device", device, "To compute on: cpu, cuda, cuda:N")
      ->check(ValueCheck(check, "cpu|cuda|cuda:N"))
      ->type_name("DEVICE")
      ->capture_default_str();
}

void add_run_directory(VerbApp& app, std::string& run) {
  app.add_option("run", run, "The run directory")->capture_default_str()->type_name("RUN_DIR");
}

}  // namespace ds
