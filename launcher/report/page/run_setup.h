// What a run trains, in a few rows (pure): model, data, batch, optimizer, precision and where, from
// its configuration and its plan. A row of which they say nothing is left out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/report/page/json_read.h"

namespace ds {

std::vector<std::pair<std::string, std::string>> run_setup(const Json& config, const Json& plan);

}  // namespace ds
