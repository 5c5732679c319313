// What training begins with where it has no state of its own yet: a checkpoint of DeepSpeed, the
// weights of a Hugging Face folder, or new ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "train/engine.h"

namespace ds {

// Whether a run may go on that would not be as if it had never stopped.
enum class Changes : uint8_t { kRefused, kAccepted };

struct Beginning {
  std::optional<std::string> resume_from{};  // a checkpoint of DeepSpeed; it comes first
  std::optional<std::string> folder{};       // else, of Hugging Face
  std::string config{};  // canonical text, by which rank 0 compares keys; empty: nobody does
  Changes changes = Changes::kRefused;
};

struct Begun {
  int64_t step = 0;                    // to go on from
  std::string origin;                  // what state was taken, in words
  std::vector<std::string> notices{};  // for the user
};

// All ranks together: fills the engine; slots of the optimizer stay as they are where there are
// only weights. ValidationError on all ranks alike where the checkpoint is none for this run; else
// as the readers throw.
// This rank's part of what is frozen becomes as the folder has it; what trains stays as it is.
// Throws as the readers of folders throw.
void load_frozen(Engine& engine, FileSystem& files, const std::string& folder);

Begun begin_training(Engine& engine, FileSystem& files, const Beginning& from);

}  // namespace ds
