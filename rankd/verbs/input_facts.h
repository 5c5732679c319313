// The question --facts-of PATH: what a model folder or a tokenizer says of its sizes, one JSON
// object. `dslaunch init` asks, because dslaunch itself links no engine.
#pragma once

#include <string>

namespace ds {

// Prints to standard output; returns 0. Throws what reading config.json and the tokenizer throws.
int print_input_facts(const std::string& path);

}  // namespace ds
