// What a reference model said, in a file of the run: a restart goes on with the same numbers, and
// computes none of them again.
#pragma once

#include <string>

#include "core/files/file.h"
#include "train/batches/reference_scores.h"

namespace ds {

// `facts`: of what, and by whom, in words that another run does not have. IoError.
void write_references(FileSystem& files, const std::string& path, const std::string& facts,
                      const RunReferences& references);
// Fills `references`; why it could not, in words: there is no such file, it is of other facts or
// sizes, or its bytes are not what was written. Empty: it could.
std::string read_references(FileSystem& files, const std::string& path, const std::string& facts,
                            RunReferences& references);

}  // namespace ds
