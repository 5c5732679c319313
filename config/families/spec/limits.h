// The largest models that can be described: far beyond any that was ever trained, and small enough
// that no product of these numbers (bytes of all states of all layers: below 2^62) leaves 64 bits,
// and that tables with a row per parameter stay small; likewise batches and runs. Whoever needs
// more raises them here.
#pragma once

#include <cstdint>

namespace ds {

inline constexpr int64_t kMostLayers = 4096;
inline constexpr int64_t kMostHeads = int64_t{1} << 16;
inline constexpr int64_t kLargestWidth = int64_t{1} << 20;        // of the hidden state
inline constexpr int64_t kLargestInnerWidth = int64_t{1} << 22;   // of the MLP
inline constexpr int64_t kMostExperts = 1024;                     // of a layer
inline constexpr int64_t kMostExpertChoices = 32;                 // of a token
inline constexpr int64_t kLargestExpertWidth = int64_t{1} << 24;  // of all experts of a layer
inline constexpr int64_t kMostPositions = int64_t{1} << 24;
inline constexpr int64_t kLargestVocabulary = int64_t{1} << 24;
inline constexpr int64_t kMostTokensOfMicroBatch = int64_t{1} << 24;
inline constexpr int64_t kMostMicroSteps = int64_t{1} << 16;
inline constexpr int64_t kMostSamples = int64_t{1} << 52;  // of a run, and of a global batch

}  // namespace ds
