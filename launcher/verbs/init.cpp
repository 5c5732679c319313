#include "launcher/verbs/init.h"

#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "cli/text/terminal_text.h"
#include "config/available.h"
#include "config/load.h"
#include "core/files/file.h"
#include "core/status/error.h"
#include "launcher/decide/text/base64.h"
#include "launcher/init/questions.h"
#include "launcher/init/train_file.h"
#include "launcher/inventory/libraries.h"
#include "launcher/process/machine.h"
#include "launcher/verbs/engine_verb.h"
#include "launcher/verbs/input_look.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

class Terminal final : public Answers {
 public:
  std::string ask(const Question& question) override {
    say(stderr, "{}{}: ", question.text,
        question.fallback ? fmt::format(" [{}]", *question.fallback) : "");
    std::string answer;
    if (!std::getline(std::cin, answer)) {
      throw UsageError(fmt::format("the input ended before {} was answered; nothing was written",
                                   question.option));
    }
    const size_t begin = answer.find_first_not_of(" \t\r");
    if (begin == std::string::npos) return {};
    return answer.substr(begin, answer.find_last_not_of(" \t\r") + 1 - begin);
  }
  void refuse(const std::string& why) override { say(stderr, "  {}\n", why); }
};

InitContext look_around(const CommandContext& context) {
  InitContext out;
  out.look = [&context](const std::string& path) {
    return parse_input_facts(
        engine_output({"--facts-of", path}, context, fmt::format("looking at {}", path)));
  };
  out.format_of = [&context](const std::vector<std::string>& paths) {
    std::vector<std::string> question{"--format-of"};
    question.insert(question.end(), paths.begin(), paths.end());
    std::string format = engine_output(question, context, "looking at the data");
    while (format.ends_with('\n')) format.pop_back();
    return format;
  };
  out.exists = [](const std::string& path) {
    std::error_code unreadable;
    return fs::exists(path, unreadable);
  };
  out.file_bytes = [](const std::string& path) -> std::optional<int64_t> {
    std::error_code no_file;
    const auto size = fs::file_size(path, no_file);
    return no_file ? std::nullopt : std::optional(static_cast<int64_t>(size));
  };
  out.ranks = choose_shape(this_machine(context.visible_gpus), std::nullopt, std::nullopt).ranks;
  out.bf16_is_faster = [&context] {
    return parse_engine_facts(
               engine_output({"--inventory"}, context, "asking rankd about this CPU"))
        .bf16_products;
  };
  return out;
}

void refuse_existing(const InitOptions& options) {
  std::error_code unreadable;
  if (!options.force && fs::exists(fs::symlink_status(options.output, unreadable))) {
    throw UsageError(fmt::format(
        "{} is there already: --force overwrites it, --output names another", options.output));
  }
}

// The choices with other words for each path.
template <class Rename>
TrainingChoices renamed(TrainingChoices choices, const Rename& rename) {
  for (std::string& path : choices.data) path = rename(path);
  if (find_model_size(choices.model) == nullptr) choices.model = rename(choices.model);
  if (choices.tokenizer != "byte") choices.tokenizer = rename(choices.tokenizer);
  return choices;
}

// Symbolic links are followed now: the run itself moves runs/latest, and goes on from
// runs/latest/final all the same.
fs::path real_place(const std::string& path) { return fs::weakly_canonical(fs::absolute(path)); }

// What was typed is relative to here, what stands in the file to the file.
TrainingChoices seen_from(const std::string& file, const TrainingChoices& choices) {
  const fs::path folder = real_place(file).parent_path();
  return renamed(choices, [&](const std::string& path) {
    const fs::path place = real_place(path);
    return fs::path(path).is_absolute() ? place.string()
                                        : place.lexically_proximate(folder).string();
  });
}

// Data, tokenizer and model as a run would meet them, before anything is written.
void require_readable(const TrainingChoices& choices, const CommandContext& context) {
  const TrainingChoices placed =
      renamed(choices, [](const std::string& path) { return real_place(path).string(); });
  const InputLook look =
      look_at_inputs(encode_base64(train_file(placed, "train.json")), {}, {}, context);
  if (look.not_done) throw InternalError(*look.not_done);
  if (look.wrong.empty()) return;
  std::string text;
  for (const WrongInput& wrong : look.wrong) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\n", wrong.key, wrong.what);
  }
  throw Error(look.wrong.front().code, text);
}

// What is written here has to be valid, whatever the answers were.
void require_valid(const std::string& text, const InitOptions& options) {
  ReadConfig read = read_config_text(text, options.output);
  check_available(read.config, read.origins, read.problems);
  check_complete(read);
  read.problems.throw_if_any();
}

void write(const std::string& text, const InitOptions& options) {
  RealFileSystem files;
  if (options.force) {
    files.write_text_atomically(options.output, text);
    return;
  }
  const auto file = files.create(options.output);  // also refuses what came meanwhile
  file->write(0, std::as_bytes(std::span(text)));
  file->sync();
}

Value chosen_json(const TrainingChoices& choices, const InitOptions& options, int ranks) {
  std::vector<Value> data;
  for (const std::string& path : choices.data) data.push_back(Value::string(path));
  Value out = Value::object();
  out.set("output", Value::string(options.output));
  out.set("data", Value::list(std::move(data)));
  out.set("model", Value::string(choices.model));
  out.set("tokenizer", Value::string(choices.tokenizer));
  out.set("sequence_length", Value::integer(choices.sequence_length));
  out.set("batch", Value::integer(choices.batch));
  out.set("precision", Value::string(choices.bf16 ? "bf16" : "fp32"));
  out.set("zero_stage", Value::integer(choices.zero_stage));
  out.set("format", Value::string(choices.format.empty() ? "text" : choices.format));
  out.set("lora", Value::boolean(choices.lora));
  out.set("steps", Value::integer(choices.steps));
  out.set("ranks", Value::integer(ranks));
  return out;
}

}  // namespace

int run_init(const InitOptions& options, const CommandContext& context) {
  refuse_existing(options);
  Terminal terminal;
  const bool asks = options.data.empty() && isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
  const InitContext around = look_around(context);
  const TrainingChoices typed = choose_training(options, around, asks ? &terminal : nullptr);
  require_readable(typed, context);
  const TrainingChoices choices = seen_from(options.output, typed);
  const std::string text = train_file(choices, options.output);
  require_valid(text, options);
  write(text, options);
  if (options.json) {
    say("{}", to_json(chosen_json(choices, options, around.ranks)));
    return 0;
  }
  say("wrote {0}\n"
      "  dslaunch check {0}     what is wrong with it\n"
      "  dslaunch plan {0}      memory and traffic, before running\n"
      "  dslaunch {0}           train, with {1} ranks on this machine\n",
      options.output, around.ranks);
  return 0;
}

}  // namespace ds
