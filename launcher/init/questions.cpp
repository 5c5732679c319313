#include "launcher/init/questions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "config/batch.h"
#include "config/reader/nearest.h"
#include "core/status/error.h"

namespace ds {
namespace {

// The first of option, answer and fallback that `parse` takes; what it refuses it throws as a
// UsageError.
template <class Parse>
auto decide(const std::optional<std::string>& option, const Question& question, Answers* answers,
            const Parse& parse) {
  if (option) {
    try {
      return parse(*option);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{} {}: {}", question.option, *option, error.what()));
    }
  }
  if (answers == nullptr) {
    if (!question.fallback) {
      throw UsageError(fmt::format(
          "{} is needed: {} (on a terminal, init would ask; see `dslaunch init --help`)",
          question.option, question.text));
    }
    return parse(*question.fallback);
  }
  while (true) {
    const std::string answer = answers->ask(question);
    try {
      if (!answer.empty()) return parse(answer);
      if (question.fallback) return parse(*question.fallback);
      throw UsageError("this one has no default");
    } catch (const UsageError& error) {
      answers->refuse(error.what());
    }
  }
}

int64_t whole_number(const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < least || value > most) {
    throw UsageError(fmt::format("expected a whole number from {} to {}", least, most));
  }
  return value;
}

constexpr int64_t kMost = 1'000'000'000;

class Chooser {
 public:
  Chooser(const InitOptions& options, const InitContext& context, Answers* answers)
      : options_(options), context_(context), answers_(answers) {}

  TrainingChoices choose() {
    choose_data();
    choose_model();
    choose_format();
    choose_tokenizer();
    choose_sizes();
    choose_numbers();
    return std::move(out_);
  }

 private:
  void choose_data();
  void choose_model();
  void choose_format();
  void choose_tokenizer();
  void choose_sizes();
  void choose_numbers();
  void require_path(const std::string& path) const {
    if (!context_.exists(path)) throw UsageError(fmt::format("there is no {}", path));
  }

  const InitOptions& options_;
  const InitContext& context_;
  Answers* const answers_;
  TrainingChoices out_;
  InputFacts model_;  // of a folder
};

void Chooser::choose_data() {
  const auto parse = [&](const std::string& text) {
    std::istringstream words(text);
    return std::vector<std::string>{std::istream_iterator<std::string>(words), {}};
  };
  const auto check = [&](std::vector<std::string> paths) {
    for (const std::string& path : paths) {
      if (path.find_first_of("*?[") == std::string::npos) require_path(path);
    }
    return paths;
  };
  const Question question{"--data",
                          "Training data: files, folders or patterns, blanks between them"};
  if (options_.data.empty()) {
    out_.data =
        decide({}, question, answers_, [&](const std::string& text) { return check(parse(text)); });
  } else {
    out_.data = check(options_.data);
  }
  int64_t bytes = 0;
  for (const std::string& path : out_.data) {
    const std::optional<int64_t> size = context_.file_bytes(path);
    if (!size) return;
    bytes += *size;
  }
  out_.data_bytes = bytes;
}

void Chooser::choose_model() {
  const std::string sizes = fmt::format("{}", fmt::join(model_size_names(), ", "));
  const Question question{options_.finetune ? "--finetune" : "--model",
                          fmt::format("Model: {}, or a Hugging Face folder", sizes), "small"};
  if (options_.finetune && options_.model) {
    throw UsageError("--model and --finetune both name the model; give one of them");
  }
  const std::optional<std::string>& given = options_.finetune ? options_.finetune : options_.model;
  if (options_.finetune && find_model_size(*given) != nullptr) {
    throw UsageError(fmt::format("--finetune {}: expected a folder with a trained model", *given));
  }
  out_.model = decide(given, question, answers_, [&](const std::string& text) {
    if (find_model_size(text) != nullptr) return text;
    if (!context_.exists(text)) {
      const std::string near = misspelt_name(text, model_size_names());
      throw UsageError(fmt::format("neither a size ({}) nor a folder{}", sizes,
                                   near.empty() ? "" : fmt::format("; did you mean {}?", near)));
    }
    model_ = context_.look(text);
    if (!model_.positions) throw UsageError("no model: the folder has no config.json");
    return text;
  });
}

// Examples are told by the fields of the records.
void Chooser::choose_format() {
  if (options_.lora && !options_.finetune) {
    throw UsageError("--lora: adapters are trained beside a folder's weights; give --finetune");
  }
  out_.lora = options_.lora;
  if (!options_.finetune) return;
  out_.format = context_.format_of(out_.data);
  if (out_.format != "text") return;
  throw UsageError(
      fmt::format("--finetune: {} has no examples, which are records with \"messages\", "
                  "\"conversations\", \"prompt\" and \"completion\", \"instruction\" and "
                  "\"output\", \"input_ids\", or \"chosen\" and \"rejected\"; with --model the "
                  "folder goes on with text",
                  out_.data.front()));
}

void Chooser::choose_tokenizer() {
  Question question{"--tokenizer", "Tokenizer: byte, a file of one or a folder with it", "byte"};
  constexpr int64_t kBytes = 256;
  if (model_.tokenizer) {
    question.fallback = out_.model;
  } else if (model_.positions && model_.vocabulary != kBytes) {
    // Whose ids they are, the folder does not say; of 256 they are bytes.
    question.fallback.reset();
  }
  out_.tokenizer = decide(options_.tokenizer, question, answers_, [&](const std::string& text) {
    int64_t ids = kBytes;
    if (text != "byte") {
      require_path(text);
      ids = context_.look(text).tokenizer.value_or(0);
      if (ids == 0) throw UsageError("the folder has no tokenizer");
    }
    if (model_.vocabulary && ids > *model_.vocabulary) {
      throw UsageError(
          fmt::format("it has {} tokens, the model {} of them", ids, *model_.vocabulary));
    }
    out_.vocabulary = ids;
    return text;
  });
}

void Chooser::choose_sizes() {
  const int64_t longest = model_.positions.value_or(kMost);
  const int64_t usual = out_.format.empty() ? 256 : 1024;  // an example is one sample or less
  const Question length{"--sequence-length", "Tokens per sample",
                        std::to_string(std::min<int64_t>(usual, longest))};
  out_.sequence_length =
      decide(options_.sequence_length, length, answers_,
             [&](const std::string& text) { return whole_number(text, 2, longest); });
  const int64_t ranks = context_.ranks;
  constexpr int64_t kSamples = 8;  // small, and still an average of some
  const Question batch{
      "--batch", fmt::format("Samples per step, over the {} ranks that a run here has", ranks),
      std::to_string((kSamples + ranks - 1) / ranks * ranks)};
  out_.batch = decide(options_.batch, batch, answers_, [&](const std::string& text) {
    const int64_t samples = whole_number(text, 1, kMost);
    if (samples % ranks != 0) {
      throw UsageError(fmt::format(
          "a run on this machine has {} ranks, which have to share them equally", ranks));
    }
    return samples;
  });
}

void Chooser::choose_numbers() {
  Question precision{"--precision", "Precision: fp32 or bf16"};
  if (!options_.precision) precision.fallback = context_.bf16_is_faster() ? "bf16" : "fp32";
  out_.bf16 = decide(options_.precision, precision, answers_, [](const std::string& text) {
    if (text != "fp32" && text != "bf16") throw UsageError("expected fp32 or bf16");
    return text == "bf16";
  });
  const Question stage{
      "--zero-stage",
      "ZeRO stage: 0 shares nothing, 1 optimizer states, 2 gradients too, 3 weights too", "2"};
  out_.zero_stage = decide(options_.zero_stage, stage, answers_,
                           [](const std::string& text) { return whole_number(text, 0, 3); });
  const Question steps{"--steps", "Optimizer steps", "200"};
  out_.steps = decide(options_.steps, steps, answers_,
                      [](const std::string& text) { return whole_number(text, 1, kMost); });
}

}  // namespace

TrainingChoices choose_training(const InitOptions& options, const InitContext& context,
                                Answers* answers) {
  return Chooser(options, context, answers).choose();
}

}  // namespace ds
