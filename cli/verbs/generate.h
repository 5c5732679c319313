// `dslaunch generate SOURCE --prompt TEXT`.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace ds {

struct GenerateArgs {
  std::string source;        // a checkpoint tag, a run directory, or a Hugging Face folder
  std::string tokenizer;     // empty: that of the source
  std::string prompt;
  int64_t max_tokens = 128;
  double temperature = 0.8;  // 0 takes the likeliest token
  int64_t top_k = 40;        // 0 keeps the whole vocabulary
  uint64_t seed = 1234;
  int threads = 0;           // 0: one per core
};

void describe_generate(CLI::App& app, GenerateArgs& values);

}  // namespace ds
