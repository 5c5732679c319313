// Checkpoints of ours and of others, files of PyTorch's and folders of weights, as a Hugging Face
// folder or as a universal checkpoint of DeepSpeed's. Nothing of them is executed, and no more than
// one tensor is in memory at a time.
#pragma once

#include "core/files/file.h"
#include "train/convert/conversion.h"

namespace ds {

// The destination appears whole or not at all. UsageError where it is there; InputMissing for a
// source or config.json that is not; DataError listing the weights that are missing, unknown or of
// another shape than config.json says; Unsupported for a kUniversal of weights alone, or of an
// optimizer that DeepSpeed has no such slots of; else as the readers throw.
Converted convert(FileSystem& files, const Conversion& what);

}  // namespace ds
