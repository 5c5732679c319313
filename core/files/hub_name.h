// Names of the Hugging Face hub ("gpt2", "some-org/Some-7B"), which many programs look up in the
// network and download, and of files that PyTorch writes. Here inputs are files and folders of this
// machine.
#pragma once

#include <string>

#include "core/files/file.h"

namespace ds {

// How a hub's `what` ("model", "tokenizer") comes onto this machine, where `path` is not there and
// may have been meant as such a name: "models are folders of this machine ...".
std::string hub_advice(const FileSystem& files, const std::string& path, const std::string& what);

// Whether weights are pickled by PyTorch, as the name of their file says: pytorch_model.bin, *.pt.
bool is_pickled(const std::string& path);

}  // namespace ds
