// A fresh directory that is gone when the test is.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace ds::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string path = (std::filesystem::temp_directory_path() / "ds-test-XXXXXX").string();
    path_ = mkdtemp(path.data());
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;  // owns the directory
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ds::testing
