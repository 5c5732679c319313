// The question --facts-of PATH: what a model folder or a tokenizer says of its sizes, one JSON
// object. `dslaunch init` asks, because dslaunch itself links no engine.
#pragma once

#include <span>
#include <string>

namespace ds {

// Prints to standard output; returns 0. Throws what reading config.json and the tokenizer throws.
int print_input_facts(const std::string& path);

// The question --format-of PATH...: the data.format by which the first records of files are
// examples, one word; "text" where they are none. Throws what reading the files throws.
int print_format_of(std::span<const std::string> paths);

}  // namespace ds
