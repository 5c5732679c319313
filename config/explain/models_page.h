// docs/models.md: every family of models and what it has, made from what families say of
// themselves. A test fails when the committed page is stale.
#pragma once

#include <string>

namespace ds {

std::string models_page();

}  // namespace ds
