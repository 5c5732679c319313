// `dslaunch generate`: text from a trained model, in one process.
#pragma once

#include <cstdint>
#include <string>

namespace ds {

struct GenerateArgs {
  std::string source;        // a checkpoint tag, a run directory, or a Hugging Face folder
  std::string prompt;
  int64_t max_tokens = 128;
  double temperature = 0.8;  // 0 takes the likeliest token
  int64_t top_k = 40;        // 0 keeps the whole vocabulary
  uint64_t seed = 1234;
  int threads = 1;
};

// Prints the prompt and its continuation on stdout. Returns the exit code; throws Error.
int run_generate(const GenerateArgs& args);

}  // namespace ds
