// Folders of DeepSpeed's checkpoints (global_step10/mp_rank_00_model_states.pt, `latest`), which
// may be given where a model, a run directory or a checkpoint is expected. They are recognised by
// the names of their files; nothing in them is read.
#pragma once

#include <string>

#include "core/files/file.h"

namespace ds {

// Whether it is such a folder, or one checkpoint of it.
bool is_deepspeed_folder(const FileSystem& files, const std::string& path);

// What is said of such a folder, of one checkpoint of it, or of one of its files: what it is, what
// was expected and what helps. Empty for every other path, and where it cannot be listed.
std::string deepspeed_advice(const FileSystem& files, const std::string& path);

}  // namespace ds
