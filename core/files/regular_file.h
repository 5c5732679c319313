// How a file that strangers may have put there is opened for reading: nothing but a regular file,
// or a link to one, and without ever waiting for one.
#pragma once

#include <string>

#include "core/files/file.h"

namespace ds {

// InputMissing if there is none, NotAFile for a directory, FIFO, socket or device, else IoError.
Fd open_regular_file(const std::string& path, Caching caching = Caching::kCached);

}  // namespace ds
