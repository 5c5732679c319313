// Manual pages in roff's man macros, from the outlines of the verbs (pure).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/outline.h"

namespace ds {

// dslaunch(1): how to begin, and the list of verbs.
std::string manual_page(std::span<const VerbOutline> verbs, std::string_view version);
// dslaunch-VERB(1).
std::string manual_page(const VerbOutline& verb, std::string_view version);

}  // namespace ds
