// Errors of files and other storage, told apart by what the system says.
#pragma once

#include <string>
#include <string_view>

#include "core/status/error.h"

namespace ds {

// The storage has no room left (ENOSPC, EDQUOT). A save that meets it is dropped and training goes
// on.
class DiskFull : public IoError {
 public:
  explicit DiskFull(const std::string& m) : IoError(m) {}
};

// What is there is a directory, FIFO, socket or device, where a regular file is needed.
class NotAFile : public IoError {
 public:
  explicit NotAFile(const std::string& m) : IoError(m) {}
};

// Throws what the error number stands for: InputMissing for ENOENT and ENOTDIR, DiskFull for ENOSPC
// and EDQUOT, else IoError. The message is "<operation> <path>: <reason>".
[[noreturn]] void throw_io_error(std::string_view operation, std::string_view path,
                                 int error_number);

}  // namespace ds
