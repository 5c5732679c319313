// Keys that DeepSpeed leaves aside when it trains and that stand in published configurations all
// the same: of older releases, of its inference engine, of the programs around it, misprints that
// were copied on, and comments; and the sections in which it leaves any key aside that it does not
// know (pure).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ds {

// Why the key is left aside, to follow "is ignored, as by DeepSpeed: "; nothing for any other key.
// `section` is "" for the document, and list elements are written [0].
std::optional<std::string> why_ignored(std::string_view section, std::string_view key);

// The releases of DeepSpeed that read past any key of the section that they do not know, to follow
// "as by"; nothing where all of them refuse it, and where the section is ours.
std::optional<std::string_view> who_reads_past(std::string_view section);

}  // namespace ds
