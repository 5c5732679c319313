// docs/config.md: every key, generated from fields(). A test fails when the committed page is
// stale.
#pragma once

#include <string>

namespace ds {

std::string config_documentation();

}  // namespace ds
