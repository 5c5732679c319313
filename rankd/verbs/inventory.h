// The question --inventory: which libraries the engine was linked with and what it can use of this
// processor, one JSON object. `dslaunch env` asks, because dslaunch itself links no engine.
#pragma once

namespace ds {

// Prints to standard output; returns 0.
int run_inventory();

}  // namespace ds
