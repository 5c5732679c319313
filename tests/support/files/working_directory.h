// Makes a directory the current one as long as the object is there: for what starts at "here".
#pragma once

#include <filesystem>

namespace ds::testing {

class WorkingDirectory {
 public:
  explicit WorkingDirectory(const std::filesystem::path& directory)
      : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(directory);
  }
  WorkingDirectory(const WorkingDirectory&) = delete;  // goes back once
  WorkingDirectory& operator=(const WorkingDirectory&) = delete;
  ~WorkingDirectory() {
    std::error_code error;
    std::filesystem::current_path(before_, error);
  }

 private:
  const std::filesystem::path before_;
};

}  // namespace ds::testing
