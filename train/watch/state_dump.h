// dump_state: what the engine came to, in lines for people, after it was made and loaded.
#pragma once

#include <string>
#include <vector>

#include "train/engine.h"
#include "train/workspace.h"

namespace ds {

std::vector<std::string> state_lines(Engine& engine, const Workspace& workspace);

}  // namespace ds
