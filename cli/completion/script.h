// Completion for shells, from the outlines of the verbs (pure).
#pragma once

#include <span>
#include <string>

#include "cli/completion/keys.h"
#include "cli/outline.h"

namespace ds {

enum class Shell { kBash, kZsh, kFish };

// A script that the shell reads; it completes verbs, options, choices, files and folders, keys of
// the configuration component by component, and the values of those that are words.
std::string completion_script(Shell shell, std::span<const VerbOutline> verbs,
                              std::span<const CompletedKey> keys);

}  // namespace ds
