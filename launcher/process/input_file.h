// Small text files that the user names, read whole. Refuses what is no regular file (a pipe must
// not make us wait) and what is larger than anybody would write.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace ds {

// Throws InputMissing where it is not there or cannot be read, DataError where it is no file of at
// most `limit` bytes.
std::string read_input_file(const std::filesystem::path& path, size_t limit);

// Nothing where the file does not exist.
std::optional<std::string> read_input_file_if_there(const std::filesystem::path& path,
                                                    size_t limit);

}  // namespace ds
