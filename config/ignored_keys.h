// Keys that DeepSpeed leaves aside when it trains and that stand in published configurations all
// the same: of older releases, of its inference engine, of the PyTorch code around it, misprints
// that were copied on, and comments. They get a note; every other unknown key is an error, since
// here it would be a slip (pure).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ds {

// Why the key is left aside, to follow "is ignored, as by DeepSpeed: "; nothing for any other key.
// `section` is "" for the document, and list elements are written [0].
std::optional<std::string> why_ignored(std::string_view section, std::string_view key);

}  // namespace ds
