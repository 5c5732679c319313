// `dslaunch tokenize`: texts to token ids and back.
#pragma once

#include "cli/verbs/data/tokenize.h"

namespace ds {

// Prints one line per text. Returns the exit code; throws Error.
int run_tokenize(const TokenizeArgs& args);

}  // namespace ds
