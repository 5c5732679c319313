// Which files a path of `data` stands for: itself, the files of a folder and its subfolders, or
// those that a pattern with * ? [ ] matches; in the order of their names, so that all ranks see the
// same one. Names that begin with . or _ (marks and metadata of other programs), and those of files
// that are not finished, are no data unless named.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/file.h"

namespace ds {

// The end of the name of a file that is being written, or was when its program was killed.
inline constexpr std::string_view kUnfinished = ".unfinished";

// InputMissing where a path or pattern names nothing, DataError for a folder without files,
// Unsupported for **. Of an indexed data set found in a folder or by a pattern, the .bin stands for
// both of its files.
std::vector<std::string> expand_paths(const FileSystem& file_system,
                                      std::span<const std::string> paths);

// What these files are called in messages: a single one by its name, several by the first, the last
// and how many they are. There is one at least.
std::string called(const std::string& first, const std::string& last, size_t count);

}  // namespace ds
