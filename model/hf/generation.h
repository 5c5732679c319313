// What a Hugging Face folder says of generating: which tokens end a text, and how they are drawn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/files/file.h"

namespace ds {

// Bounds of a repetition penalty: beyond them it leaves no number of a logit.
inline constexpr double kLeastRepetitionPenalty = 1e-6, kMostRepetitionPenalty = 1e6;

// The tokens that end a text: generation_config.json where it says so, else config.json. An id may
// be one number, a list, or null. Nothing where neither file speaks of it (or says null). DataError
// for what is no id.
std::optional<std::vector<int32_t>> read_eos_ids(FileSystem& files, const std::string& folder);

// What generation_config.json says of drawing, for whoever is told nothing else. What it leaves
// out, or says null for, has no value.
struct GenerationDefaults {
  std::optional<bool> do_sample;  // false: the likeliest token
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k, max_new_tokens;
  // Keys that change transformers' text and not ours, with their values: "num_beams 4".
  std::vector<std::string> not_applied;
};

// Nothing without the file. DataError for a value that is none of its key.
GenerationDefaults read_generation_defaults(FileSystem& files, const std::string& folder);

}  // namespace ds
