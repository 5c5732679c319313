// `dslaunch generate SOURCE --prompt TEXT`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/chat_options.h"
#include "cli/hosts.h"
#include "cli/verbs/prompts.h"

namespace ds {

// How tokens are drawn. What is not given is what generation_config.json of the model's folder
// says, else a default.
struct DrawingArgs {
  static constexpr double kTemperature = 0.8;
  static constexpr int64_t kTopK = 40;
  // Repetition penalties beyond these leave no number of a logit.
  static constexpr double kLeastPenalty = 1e-6, kMostPenalty = 1e6;

  std::optional<double> temperature;         // 0 takes the likeliest token
  std::optional<int64_t> top_k;              // 0 keeps the whole vocabulary
  std::optional<double> top_p;               // 1 keeps it, too
  std::optional<double> min_p;               // and so does 0
  std::optional<double> repetition_penalty;  // 1: none
};

struct GenerateArgs {
  static constexpr int64_t kMaxTokens = 128;

  std::string source;                // a checkpoint tag, a run directory, or a Hugging Face folder
  std::optional<std::string> base;   // of adapters: the folder of the model
  std::vector<std::string> prompts;  // "-", or none at all: standard input
  std::optional<std::string> prompt_file;  // JSON lines; "-": standard input
  bool lines = false;                      // each line of standard input is a prompt of its own
  std::optional<int64_t> max_tokens;       // as with DrawingArgs
  DrawingArgs drawing;
  int64_t num_samples = 1;         // texts for each prompt
  std::vector<std::string> stops;  // texts that end the text, and are not part of it
  std::string tokenizer;           // empty: the model's own
  std::string dtype;               // empty: bf16 for folders whose weights are, else fp32
  std::string device = "cpu";      // or cuda, cuda:N
  uint64_t seed = 1234;
  int threads = 0;               // 0: one per core; with ranks: their share
  std::optional<int> num_ranks;  // stages of the model; none or 1: one process has all of it
  HostOptions hosts;             // where they are
  bool json = false;
  std::optional<int64_t> logprobs;    // of each token, and of so many others; with json
  ChatArgs chat;                      // prompts are conversations, and texts replies to them
  std::optional<std::string> system;  // the message before the first of a user
};

// Whether messages are typed, and answered one by one: --chat without any prompt, on a terminal.
bool is_talk(const GenerateArgs& args, bool is_terminal);

// Whether ranks of a job have the model, and not this process.
bool asks_for_ranks(const GenerateArgs& args);

// The messages that a conversation of these arguments begins with.
std::vector<ChatMessage> first_messages(const GenerateArgs& args);

// The prompts, from whichever source the arguments name. UsageError where there is none, or where
// arguments do not go with each other; what read_prompt_file throws.
std::vector<PromptRecord> prompt_records(const GenerateArgs& args);

void describe_generate(VerbApp& app, GenerateArgs& values);

}  // namespace ds
