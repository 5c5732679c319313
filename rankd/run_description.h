// What a run trains, on what and how long, in words for its user at the start (pure).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"

namespace ds {

struct RunOutline {
  std::string family{};  // as "model.family" names it
  int64_t parameters = 0;
  int64_t frozen = 0;        // of them
  int64_t packed = 0;        // of the frozen ones, those that are kept as codes
  std::string code{};        // as which: "nf4, 4.125 bits each"
  std::string teacher{};     // the family of the second model; empty: there is none
  int64_t teacher_size = 0;  // parameters of it
  std::string dtype{};       // of weights in computations: "bf16"
  std::string optimizer{};
  int stage = 0;                       // of ZeRO
  int64_t samples = 0;                 // of a pass over the training data
  std::optional<int64_t> documents{};  // where the data say how many they are
  int64_t validation = 0;              // samples; 0: there are none
  int64_t length = 0;                  // tokens of a sample
  int64_t batch = 0;                   // samples of a step, over all ranks
  int64_t steps = 0;                   // of the whole run
  std::string tokenizer{};             // empty: the data are token ids
};

// Lines without an end:
// "model      gpt2, 124.4 M parameters, bf16, AdamW, ZeRO stage 2"
// "model      gpt2, 124.4 M parameters (7 M train, 117.4 M are frozen), bf16, AdamW, ZeRO stage 2"
// "model      llama, 8 B parameters (21 M train, 8 B are frozen, 7 B of them nf4, 4.125 bits each),
//             bf16, AdamW, ZeRO stage 2"                                                 (one line)
// "teacher    llama, 8 B parameters"
// "data       2.5 M samples of 1024 tokens a pass (2.6 G tokens, 417 K documents), 20 K for
//             validation, tokenizer byte"                                                (one line)
// "plan       600 steps of 32 samples: 0.8 % of a pass, which is 78 K steps"
std::vector<std::string> description(const RunOutline& outline);

}  // namespace ds
