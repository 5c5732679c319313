// A file that comes to be under a name that an earlier process may have left behind.
#pragma once

#include <memory>
#include <string>

#include "core/files/file.h"

namespace ds {

// As FileSystem::create, in the place of what is there.
inline std::unique_ptr<File> create_anew(FileSystem& files, const std::string& path) {
  if (files.exists(path)) files.remove(path);
  return files.create(path);
}

}  // namespace ds
