// `dslaunch check FOLDER`: what is in a folder of a model or of adapters, and what of it this build
// cannot use. Each part is looked at by itself, so that one look tells everything; weights are not
// read, but their headers are.
#pragma once

#include <string>

#include "cli/verbs/check.h"
#include "core/files/file.h"
#include "rankd/verbs/weights/folder_look.h"

namespace ds {

// Throws only what no part explains, such as an I/O error of the folder itself.
ModelFolderLook look_at_model_folder(FileSystem& files, const std::string& folder);

// As a page for people, and as JSON for programs.
std::string look_text(const ModelFolderLook& look);
std::string look_json(const ModelFolderLook& look);

// UsageError for options that are for configurations.
int run_check_of_folder(const CheckOptions& options);

}  // namespace ds
