// Text of others inside HTML and SVG (pure).
#pragma once

#include <string>
#include <string_view>

namespace ds {

// As text or inside a quoted attribute of either kind, it is shown and never read as markup.
// Control characters, which neither allows, are shown as terminal_text() shows them.
std::string markup_text(std::string_view text);

}  // namespace ds
