// `dslaunch eval` of a model that scores classes: how often the highest score is that of the class
// which a record, or a word, is of, in one process.
#pragma once

#include <string>

#include "cli/verbs/eval.h"
#include "core/files/file.h"
#include "train/model_source.h"

namespace ds {

// Returns the figures as eval prints them; throws Error.
std::string evaluate_classes(const EvalArgs& args, FileSystem& files, const ModelSource& source);

}  // namespace ds
