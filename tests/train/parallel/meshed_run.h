// Small runs of given models over a mesh: what they come to, beside a run of one rank, and what a
// step of theirs moves and keeps, beside what was planned.
#pragma once

#include <cmath>
#include <mutex>

#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/train/runs/small_run.h"

namespace ds::testing {

EngineOptions options_with(const Setting& setting, const ModelConfig& model);

Outcome run_model(const Setting& setting, const ModelConfig& model, FileSystem& files,
                  int64_t until);

Outcome run_model(const Setting& setting, const ModelConfig& model, int64_t until = 4);

// Heads that two and four ranks can share out; two layers, as of all small models.
Gpt2Config gpt2_of_four_heads(bool tied, double dropout = 0);

LlamaConfig llama_of_eight_heads(bool tied, double dropout = 0);

// With biases, and an inner dimension that divides by neither 2 nor 4, as the vocabulary.
LlamaConfig llama_with_biases(bool tied, double dropout = 0, int64_t key_heads = 4);

void require_losses_near(const Outcome& got, const Outcome& expected, double within);

// Adam's first updates hardly depend on how large a gradient is, but on its sign: where it is
// nearly nothing, weights may go apart by twice the rate.
void require_near(const Outcome& got, const Outcome& expected, double within);

// What the first saves, two steps before the end of a run that never stops (`whole`), the second
// goes on with: it has the same state, and comes to the same loss.
void require_goes_on(const Setting& first, const Setting& second, const ModelConfig& model,
                     const Outcome& whole);

// Every other stage of ZeRO has the bits of stage 0, which are returned.
Outcome require_stages_alike(Setting setting, const ModelConfig& model, int64_t until);

// One step of a rank: what it moves along each axis and what that was planned to be.
struct Moved {
  CommVolume::ByAxis traffic;
  std::map<std::string, std::map<std::string, double>> planned;
};

// Returns what ranks moved, by rank. Each has the memory that was planned for it.
std::vector<Moved> moved_by(const Setting& setting, const EngineOptions& options);

void check_as_planned(const Moved& moved);

}  // namespace ds::testing
