// The table of ranks of a screen (pure): a row for each, with bars of what is known of it: how many
// of the steps it has done, and of its GPU the memory that is used and the part of the time in
// which it computed. A number that nobody told is "-" and has no bar.
#pragma once

#include <cstddef>
#include <vector>

#include "launcher/control/run_status.h"
#include "launcher/report/terminal/screen_line.h"

namespace ds {

// Returns at most `rows`, the heading among them, each as wide as the look at most. If there is not
// room for all ranks, those that are not well come first, and the last row counts those that are
// left out. If there is not room for all columns, the least important are left out.
std::vector<ScreenLine> rank_table(const RunStatus& status, size_t rows, const ScreenLook& look);

}  // namespace ds
