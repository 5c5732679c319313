// Reads a configuration text as DeepSpeed reads it: JSON, and Hjson's leniencies (comments,
// optional and trailing commas, unquoted keys, quoteless strings up to the end of the line, single
// quotes,
// ''' blocks, an object without its outer braces). Refused with a position: duplicate keys, invalid
// UTF-8, control characters in strings, numbers beyond double, and whatever exceeds kMaxDepth,
// kMaxTextBytes or kMaxValues (no configuration comes near; it keeps hostile files cheap). Linear
// in the size of the text; recursion is bounded by kMaxDepth.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "config/reader/problem.h"
#include "config/reader/value.h"

namespace ds {

inline constexpr int kMaxDepth = 64;
inline constexpr size_t kMaxTextBytes = size_t{1} << 20;
inline constexpr int kMaxValues = 20'000;

// The root object. Throws ConfigError "source:line:column: what, what was expected".
Value read_config_document(std::string_view text, const std::string& source);

// The same, but a duplicate key is one error among `problems`, so that it hides no other; its first
// value counts.
Value read_config_document(std::string_view text, const std::string& source, Problems& problems);

// Any single value: what stands right of `=` in an override. Quoteless text that is no number,
// true, false or null is a string, commas and braces included.
Value read_config_value(std::string_view text, const Origin& origin);

// URL-safe (or plain) base64 with its padding, to bytes. Throws ConfigError naming what is wrong.
std::string decode_base64(std::string_view text);

}  // namespace ds
