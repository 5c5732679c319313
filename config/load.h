// From a file, a text or base64 to a Config: read, apply includes and overrides, rewrite old
// spellings, fill the structs, check the rules. load_config throws everything that is wrong at
// once; read_config collects it for `dslaunch check` and keeps where each value came from for
// `dslaunch explain`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/field_reader.h"
#include "config/reader/problem.h"
#include "config/reader/value.h"

namespace ds {

struct ReadConfig {
  Config config;      // fields whose value was wrong keep their default
  Value document;     // after includes, overrides and rewriting
  Origins origins;    // of every path that was given
  Problems problems;  // errors and notes
};

// `place` is a path, or URL-safe base64 of the text where no such file exists. Overrides are
// applied in order: "a.b=v" (the key must be known), "+a.b=v" (add to free-form objects too),
// "~a.b" (remove). Relative paths in model.folder and data.* become absolute, relative to the
// file's folder. Throws ConfigError for a text that is no document at all, InputMissing for a file
// that cannot be read; everything else that is wrong, malformed overrides and duplicate keys
// included, is among the problems.
ReadConfig read_config(const std::string& place, std::span<const std::string> overrides = {});

// The same from a text; `source` names it in messages, `directory` resolves includes and relative
// paths (which stay as they are when it is empty).
ReadConfig read_config_text(std::string_view text, const std::string& source,
                            std::span<const std::string> overrides = {},
                            const std::string& directory = "");

// A document that was read elsewhere, with what was wrong in it: the common end of the two above.
ReadConfig read_config_tree(Value document, Problems earlier = {});

// Config or ConfigError with every error, one a line, "file:line:column: path: message".
Config load_config(const std::string& place, std::span<const std::string> overrides = {});
Config parse_config(std::string_view text, std::span<const std::string> overrides = {});

// Canonical JSON: every field, in fixed order; parse_config() of it gives an equal Config. This is
// the text that travels to the ranks and is stored with the run.
std::string to_config_text(const Config& config);

}  // namespace ds
