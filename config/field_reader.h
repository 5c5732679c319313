// Fills the configuration structs from a document, by walking fields(): converts and checks every
// value, reports unknown keys with the nearest name, and remembers which paths were given.
#pragma once

#include <map>
#include <string>

#include "config/config.h"
#include "config/reader/problem.h"
#include "config/reader/value.h"

namespace ds {

// Path ("zero_optimization.stage") -> where it was given. A path that is absent has its default.
using Origins = std::map<std::string, Origin, std::less<>>;

// Never throws for what the document says: whatever is wrong goes to `problems`, and the field
// keeps its default. The document's root is an object.
void read_fields(const Value& document, Config& config, Origins& origins, Problems& problems);

}  // namespace ds
