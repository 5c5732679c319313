// Whether a run may go on from a checkpoint of DeepSpeed, and as what (pure). Another optimizer
// never may: its moments would be taken for what they are not. What makes samples or rates others
// than they would have been has to be asked for; what the checkpoint has and no run of ours goes on
// with is named.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/progress.h"
#include "kernels/step/loss_scale.h"

namespace ds {

// What holds for every such continuation, in words.
inline constexpr const char* kNeverGoneOnWith =
    "random numbers and the order of samples are those of train.seed, and what its script kept "
    "besides is not read";

// What the checkpoint says.
struct DeepSpeedFacts {
  std::string path;  // its name in messages
  deepspeed::Progress progress;
  std::vector<std::string> slots;   // of its optimizer
  std::vector<std::string> frozen;  // parameters that were not trained
};

// What the run is that would go on from it.
struct RunToGoOn {
  std::string optimizer;           // the family of its state: "adam", "adam, zenflow"
  std::vector<std::string> slots;  // that it keeps of each parameter
  std::string schedule;            // of the rate, as the configuration names it; empty: none
  int64_t global_batch = 0;        // samples of a step
  LossScaleRule loss_scale{};
  std::string config{};  // its canonical configuration; empty: keys are not compared
};

struct Continuation {
  std::string refusal;               // why it may not; empty: it may
  std::vector<std::string> changes;  // training would not go on as if it had never stopped
  std::vector<std::string> notes;    // what differs besides, and what is not gone on with
  int64_t step = 0;
  int64_t skipped = 0;  // steps up to there that were no updates
  std::optional<LossScaleState> scaler{};
};

// What goes on from its weights alone, in words.
std::string weights_alone(const std::string& path);

Continuation continuation_of(const DeepSpeedFacts& from, const RunToGoOn& run);

}  // namespace ds
