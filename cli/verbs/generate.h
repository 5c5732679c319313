// `dslaunch generate SOURCE --prompt TEXT`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/hosts.h"

namespace ds {

class VerbApp;

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
  std::string device = "cpu";      // or cuda, cuda:N
  uint64_t seed = 1234;
  int threads = 0;               // 0: one per core; with ranks: their share
  std::optional<int> num_ranks;  // stages of the model; none or 1: one process has all of it
  HostOptions hosts;             // where they are
  bool json = false;
};

// Whether ranks of a job have the model, and not this process.
bool asks_for_ranks(const GenerateArgs& args);

// The prompts, with those that standard input has. UsageError where there is none, or where
// arguments do not go with each other.
std::vector<std::string> prompt_texts(const GenerateArgs& args);

void describe_generate(VerbApp& app, GenerateArgs& values);

}  // namespace ds
