// Command-line changes to a document: "zero_optimization.stage=3", "+data.validation=[a.txt]",
// "~scheduler"; and `include`, which merges other files below a document.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "config/reader/value.h"

namespace ds {

// "a.b=v" replaces or adds a.b (objects on the way are made); that a.b is a known key is checked
// when the fields are read. "+a.b=v" appends to a list that is already there, else adds, and
// refuses to replace.
// "~a.b" removes; it is an error when a.b is not there. The value is JSON or a bare word.
// Throws ConfigError naming the override.
void apply_override(Value& document, const std::string& override_text);

// Replaces the root's "include": ["base.json", ...] by those files' contents: later files win over
// earlier, the document wins over all (objects are merged, anything else replaced; null removes,
// RFC 7396). Included files may include further ones. `read` takes the path as written and the
// including file's folder. Throws ConfigError for a cycle or more than 32 files.
struct IncludedFile {
  Value document;
  std::string identity;   // equal for equal files: detects cycles
  std::string directory;  // for its own includes
};
using IncludeReader =
    std::function<IncludedFile(const std::string& path, const std::string& directory)>;
void merge_includes(Value& document, const std::string& identity, const std::string& directory,
                    const IncludeReader& read);

}  // namespace ds
