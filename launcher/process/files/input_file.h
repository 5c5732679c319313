// How the launcher reads files: what the user named, what a run left and the kernel's own. Each is
// opened without waiting, refused where it is no regular file (a pipe, a device) and read no
// further than its purpose needs, because whoever can write into a run directory chooses what
// stands there. Nothing else in launcher/ opens a file for reading (tests/style/outlets.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ds {

// Throws InputMissing where it is not there or cannot be read, DataError where it is no file of at
// most `limit` bytes.
std::string read_input_file(const std::filesystem::path& path, size_t limit);

// Nothing where the file does not exist.
std::optional<std::string> read_input_file_if_there(const std::filesystem::path& path,
                                                    size_t limit);

// At most `most` bytes from `offset` on; none behind the end, and none where there is no file.
// Throws as read_input_file() does.
std::string read_part(const std::filesystem::path& path, uintmax_t offset, size_t most);

// Calls `sink` with each line that has an end, and returns whether there is such a file. Holds one
// line at a time: what is longer than any of ours comes in pieces. Throws as read_input_file().
bool read_lines(const std::filesystem::path& path, size_t limit,
                const std::function<void(std::string_view line)>& sink);

// What stands in a file of /proc, /sys or /etc; nothing where that cannot be read.
std::string system_text(const std::filesystem::path& path);

}  // namespace ds
