// `dslaunch generate SOURCE --prompt TEXT`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ds {

struct GenerateArgs {
  std::string source;                // a checkpoint tag, a run directory, or a Hugging Face folder
  std::vector<std::string> prompts;  // "-", or none at all: standard input
  bool lines = false;                // each line of standard input is a prompt of its own
  int64_t max_tokens = 128;
  double temperature = 0.8;        // 0 takes the likeliest token
  int64_t top_k = 40;              // 0 keeps the whole vocabulary
  double top_p = 1;                // 1 keeps it, too
  std::vector<std::string> stops;  // texts that end the text, and are not part of it
  std::string tokenizer;           // empty: the model's own
  std::string dtype;               // empty: bf16 for folders whose weights are, else fp32
  uint64_t seed = 1234;
  int threads = 0;  // 0: one per core
  bool json = false;
};

void describe_generate(CLI::App& app, GenerateArgs& values);

}  // namespace ds
