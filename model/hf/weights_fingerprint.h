// What the weights of a folder are known by.
#pragma once

#include <string>

#include "core/files/file.h"

namespace ds {

// Tells weights in a folder from others, without reading all of them: the names and sizes of its
// files of weights, and the digest of some of their bytes. Throws as files are read.
std::string fingerprint_of_weights(FileSystem& files, const std::string& folder);

}  // namespace ds
