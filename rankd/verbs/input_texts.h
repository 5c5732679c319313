// Texts that verbs are given beside their arguments, and what they print: whole, or an error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/files/file.h"

namespace ds {

// All of it. UsageError where it is a terminal, since nobody knows then that it is waited for;
// IoError.
std::string read_standard_input(const std::string& verb);
// A text file, decompressed where it is compressed.
std::string read_text_file(FileSystem& files, const std::string& path);

// Without the line break that editors and `echo` put at the end.
std::string without_last_break(std::string text);
// Lines that are not empty.
std::vector<std::string> lines_of(std::string_view text);

// At once on standard output, so that whoever reads sees it; IoError if it cannot be written.
void print_now(std::string_view text);

}  // namespace ds
