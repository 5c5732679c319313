// The train.json that `dslaunch init` writes (pure): commented, and nothing in it that is not
// explained.
#pragma once

#include <string>

#include "launcher/init/choices.h"

namespace ds {

// `name` is how the user will type the file. Paths stand in the text as they are in `choices`.
std::string train_file(const TrainingChoices& choices, const std::string& name);

}  // namespace ds
