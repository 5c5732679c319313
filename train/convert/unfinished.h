// A folder that appears whole or not at all.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/files/file.h"
#include "core/status/error.h"

namespace ds {

// Whether anything has the name, also a link that leads nowhere.
inline bool is_there(const FileSystem& files, const std::string& path) {
  if (files.exists(path)) return true;
  const std::string folder = parent_directory(path);
  if (!files.exists(folder)) return false;
  const std::string name = path.substr(path.find_last_of('/') + 1);
  const std::vector<DirectoryEntry> entries = files.list(folder);
  return std::ranges::find(entries, name, &DirectoryEntry::name) != entries.end();
}

// Takes away what a conversion leaves behind that fails.
class Unfinished {
 public:
  Unfinished(FileSystem& files, std::string folder) : files_(files), folder_(std::move(folder)) {
    if (is_there(files_, folder_)) {
      throw UsageError(fmt::format(
          "{}: is there already, perhaps of a conversion that was broken off; remove it", folder_));
    }
    files_.make_directory(folder_);  // of two at once one fails here, and takes nothing away
  }
  Unfinished(const Unfinished&) = delete;  // owns the folder
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished() {
    try {
      if (files_.exists(folder_)) files_.remove_tree(folder_);
    } catch (const Error&) {  // the error that led here is the one to tell
    }
  }
  const std::string& folder() const { return folder_; }
  void finish_as(const std::string& name) {
    files_.sync_directory(folder_);
    files_.rename(folder_, name);
    files_.sync_directory(parent_directory(name));
  }

 private:
  FileSystem& files_;
  std::string folder_;
};

}  // namespace ds
