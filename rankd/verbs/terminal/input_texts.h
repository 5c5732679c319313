// Texts that verbs are given beside their arguments, and what they print: whole, or an error.
#pragma once

#include <string>
#include <string_view>

#include "core/files/file.h"

namespace ds {

// A text file, decompressed where it is compressed.
std::string read_text_file(FileSystem& files, const std::string& path);

// At once on standard output, so that whoever reads sees it; IoError if it cannot be written. Byte
// for byte, but for a terminal, which is shown control characters and does not get them.
void print_now(std::string_view text);

}  // namespace ds
