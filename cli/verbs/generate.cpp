#include "cli/verbs/generate.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "cli/number_checks.h"
#include "cli/option_kinds.h"
#include "cli/standard_input.h"
#include "cli/verb_app.h"
#include "core/status/error.h"

namespace ds {
namespace {

constexpr const char* kStandardInput = "standard input";
constexpr int64_t kMostSamples = 1'000'000;
constexpr int64_t kMostAlternatives = 1'000;

void describe_prompts(VerbApp& app, GenerateArgs& values) {
  app.add_option("--prompt", values.prompts,
                 "Text to continue; -, or none: standard input. May be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  app.add_option("--prompts", values.prompt_file,
                 "JSON lines, each with its text as \"prompt\" or \"text\"; other fields go to the "
                 "output of --json. -: standard input")
      ->type_name("FILE");
  app.add_flag("--lines", values.lines, "Each line of standard input is a prompt of its own");
  add_chat(app, values.chat,
           "Reply: --prompt is what a user says, --prompts and standard input are conversations "
           "(JSON messages); on a terminal without any: talk");
  app.add_option("--system", values.system, "With --chat: the system's message before a --prompt")
      ->type_name("TEXT");
  app.add_option("--num-samples", values.num_samples,
                 "Texts for each prompt, each with random numbers of its own")
      ->check(whole_check(1, kMostSamples))
      ->type_name("N")
      ->capture_default_str();
}

void describe_drawing(VerbApp& app, GenerateArgs& values) {
  DrawingArgs& drawing = values.drawing;
  app.add_option("--temperature", drawing.temperature, "0 takes the likeliest token")
      ->check(number_check(0, std::numeric_limits<double>::max()))
      ->type_name("T")
      ->default_str(fmt::format("{}", DrawingArgs::kTemperature));
  app.add_option("--top-k", drawing.top_k, "Draw from the k likeliest tokens; 0: from all")
      ->check(whole_check(0, std::numeric_limits<int64_t>::max()))
      ->type_name("K")
      ->default_str(fmt::format("{}", DrawingArgs::kTopK));
  app.add_option("--top-p", drawing.top_p,
                 "Draw from the likeliest tokens that make up the probability p; 1: from all")
      ->check(number_check(1e-9, 1.0))
      ->type_name("P")
      ->default_str("1");
  app.add_option("--min-p", drawing.min_p,
                 "Draw from tokens with at least p times the probability of the likeliest; 0: from "
                 "all")
      ->check(number_check(0, 1.0))
      ->type_name("P")
      ->default_str("0");
  app.add_option(
         "--repetition-penalty", drawing.repetition_penalty,
         "Make tokens of the prompt and of the text so far less likely, also at temperature "
         "0; 1: none")
      ->check(number_check(DrawingArgs::kLeastPenalty, DrawingArgs::kMostPenalty))
      ->type_name("R")
      ->default_str("1");
  app.add_option("--seed", values.seed, "Same seed, same text")
      ->check(seed_check())
      ->type_name("SEED")
      ->capture_default_str();
}

void describe_output(VerbApp& app, GenerateArgs& values) {
  app.add_flag(
      "--json", values.json,
      "One object per text: text, ids, counts, why it ended, tokens per second, how it was "
      "drawn");
  app.add_option("--logprobs", values.logprobs,
                 "With --json: the log-probability of each token, and the K likeliest in its place")
      ->check(whole_check(0, kMostAlternatives))
      ->type_name("K");
}

constexpr const char* kFooter =
    "A text ends at the model's end-of-text tokens, before a --stop, or after --max-tokens.\n"
    "What generation_config.json of a Hugging Face folder says of drawing is the default there; a\n"
    "note tells it.\n"
    "A model that is too large for one host is cut into stages, on ranks as a job has them; the "
    "text\n"
    "is the same to the letter. Stages work at the same time where there are several prompts.\n"
    "\n"
    "Examples:\n"
    "  dslaunch generate runs/latest --prompt \"In the beginning\"\n"
    "  dslaunch generate path/to/huggingface/folder --prompt \"Hello\" --temperature 0\n"
    "  dslaunch generate runs/latest --lines --top-p 0.9 --stop \".\" --json < prompts.txt\n"
    "  dslaunch generate runs/latest --prompts prompts.jsonl --num-samples 4 --min-p 0.05 --json\n"
    "  dslaunch generate runs/latest --prompt \"2 + 2 =\" --temperature 0 --json --logprobs 5\n"
    "  dslaunch generate path/to/huggingface/folder --prompt \"Hello\" --device cuda\n"
    "  dslaunch generate path/to/huggingface/folder --chat\n"
    "  dslaunch generate path/to/huggingface/folder --chat --prompts conversations.json --json\n"
    "  dslaunch generate path/to/adapters --base path/to/model --prompt \"Hello\"\n"
    "  dslaunch generate runs/latest --num-ranks 2 --prompt \"In the beginning\"\n"
    "  dslaunch generate runs/latest --hostfile hosts --num-gpus 1 --lines < prompts.txt";

// Whether prompts come from standard input, where no file has them.
bool reads_input(const GenerateArgs& args) {
  return args.prompts.empty() || std::ranges::find(args.prompts, "-") != args.prompts.end();
}

void check_conversations(const GenerateArgs& args) {
  check_chat(args.chat);
  if (args.system && !args.chat.is_chat) {
    throw UsageError("generate: --system is about conversations: give --chat");
  }
  if (args.system && (args.prompt_file || reads_input(args))) {
    throw UsageError(
        "generate: --system goes before what --prompt says; conversations have such a message "
        "themselves");
  }
  if (args.chat.is_chat && args.lines) {
    throw UsageError("generate: --lines: conversations on lines are found without it");
  }
}

void check_together(const GenerateArgs& args) {
  if (args.prompt_file && !args.prompts.empty()) {
    throw UsageError("generate: --prompts has the prompts; leave --prompt out, or --prompts");
  }
  if (args.lines && (args.prompt_file || !reads_input(args))) {
    throw UsageError(
        fmt::format("generate: --lines cuts standard input into prompts, but {} gives other texts",
                    args.prompt_file ? "--prompts" : "--prompt"));
  }
  if (asks_for_ranks(args) && args.device != "cpu") {
    throw UsageError(
        fmt::format("generate: --device {}: the stages of a model that is cut compute on CPUs; "
                    "leave it out, or the ranks and hosts",
                    args.device));
  }
  if (std::ranges::find(args.stops, "") != args.stops.end())
    throw UsageError("generate: --stop: the text is empty");
  if (args.logprobs && !args.json) {
    throw UsageError("generate: --logprobs: text has no place for them; add --json");
  }
}

}  // namespace

void describe_generate(VerbApp& app, GenerateArgs& values) {
  add_model_source(app, values.source);
  add_base(app, values.base);
  describe_prompts(app, values);
  app.add_option("--max-tokens", values.max_tokens, "Tokens to add at most")
      ->check(whole_check(1, std::numeric_limits<int64_t>::max()))
      ->type_name("N")
      ->default_str(fmt::format("{}", GenerateArgs::kMaxTokens));
  app.add_option("--stop", values.stops, "The text ends before this one. May be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  describe_drawing(app, values);
  add_tokenizer_of_model(app, values.tokenizer);
  add_dtype(app, values.dtype,
            "To compute in: fp32, bf16, fp16 (default: bf16 if the weights are, else fp32)");
  add_device(app, values.device);
  app.add_option("--num-threads", values.threads,
                 "CPU threads (default: one per core; of each rank: its share of them)")
      ->check(count_check())
      ->type_name("N");
  app.add_option("--num-ranks", values.num_ranks,
                 "Cut the model into so many stages, each a process with its own layers alone "
                 "(default: 1; with hosts: their slots)")
      ->check(count_check())
      ->type_name("N");
  describe_output(app, values);
  describe_hosts(app, values.hosts);
  app.footer(kFooter);
}

bool asks_for_ranks(const GenerateArgs& args) {
  return args.num_ranks.value_or(1) > 1 || args.hosts != HostOptions{};
}

bool is_talk(const GenerateArgs& args, bool is_terminal) {
  return args.chat.is_chat && args.prompts.empty() && !args.prompt_file && is_terminal;
}

std::vector<ChatMessage> first_messages(const GenerateArgs& args) {
  if (!args.system) return {};
  return {{.role = "system", .content = *args.system}};
}

namespace {

std::vector<PromptRecord> records_of_prompt(const GenerateArgs& args, const std::string& prompt) {
  if (!args.chat.is_chat) return records_of({prompt});
  std::vector<ChatMessage> messages = first_messages(args);
  messages.push_back({.role = "user", .content = prompt});
  return records_of({json_of(messages)});
}

std::vector<PromptRecord> records_of_input(const GenerateArgs& args) {
  const std::string input = read_standard_input("generate");
  if (args.chat.is_chat) return records_of_conversations(input, kStandardInput);
  return records_of(args.lines ? lines_of(input) : std::vector{without_last_break(input)});
}

}  // namespace

std::vector<PromptRecord> prompt_records(const GenerateArgs& args) {
  check_together(args);
  check_conversations(args);
  if (args.prompt_file) {
    const std::string& path = *args.prompt_file;
    const std::string source = path == "-" ? kStandardInput : path;
    return args.chat.is_chat ? records_of_conversations(read_prompt_file(path), source)
                             : records_of_json_lines(read_prompt_file(path), source);
  }
  std::vector<PromptRecord> records;
  const auto add = [&](std::vector<PromptRecord> more) {
    std::ranges::move(more, std::back_inserter(records));
  };
  for (const std::string& prompt : args.prompts) {
    add(prompt == "-" ? records_of_input(args) : records_of_prompt(args, prompt));
  }
  if (args.prompts.empty()) add(records_of_input(args));
  if (records.empty()) throw UsageError("generate: no line of standard input is a prompt");
  return records;
}

}  // namespace ds
