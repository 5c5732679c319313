// A folder that appears whole or not at all.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "core/files/file.h"
#include "core/status/error.h"

namespace ds {

// Takes away what a conversion leaves behind that fails.
class Unfinished {
 public:
  Unfinished(FileSystem& files, std::string folder) : files_(files), folder_(std::move(folder)) {
    if (!files_.exists(folder_)) return;
    throw UsageError(fmt::format(
        "{}: is there already, perhaps of a conversion that was broken off; remove it", folder_));
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
