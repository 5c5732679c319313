#include "rankd/verbs/data/look_at_data.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cli/text/terminal_text.h"
#include "config/load.h"
#include "core/files/input_files.h"
#include "rankd/verbs/data/shown_sample.h"
#include "rankd/verbs/terminal/input_texts.h"

namespace ds {
namespace {

constexpr std::string_view kLearnt = "\033[1;32m", kGiven = "\033[2m", kUsual = "\033[0m";

// Programs that are told so by https://no-color.org print none, and what is no terminal has none.
bool has_colours() {
  const char* const none = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (none == nullptr || *none == '\0');
}

void print_coloured(const ShownSample& sample, const Tokenizer* tokenizer) {
  say("{}\n", title_of(sample));
  bool is_first = true;
  for (const ShownPiece& piece : pieces_of(sample, tokenizer)) {
    if (piece.begins_example && !is_first) say("\n");
    if (!piece.label.empty()) say("{}: ", piece.label);
    is_first = false;
    steer_terminal(stdout, piece.is_learnt ? kLearnt : kGiven);
    say("{}", piece.text);
    steer_terminal(stdout, kUsual);
  }
  say("\n\n");
}

}  // namespace

int run_look_at_data(const LookAtDataArgs& args) {
  const Config config = load_config(args.config_path, args.overrides);
  RealFileSystem real;
  InputFiles files(real);
  const ModelConfig model = model_config(config, files);
  if (!predicts_next(model) || model.classifier || model.pairs) {
    throw Unsupported(fmt::format(
        "look-at-data: {} is trained on something else than next tokens, and samples of those are "
        "what is shown",
        hf_model_class(model)));
  }
  sequence_length(config.data, model);  // which the model has to have positions for
  const TrainingData data = open_data(config.data, model, files);
  if (args.validation && !data.validation) {
    throw ConfigError("look-at-data --validation: the run has no validation data");
  }
  const SampleSet& set = args.validation ? *data.validation : data.train;
  if (args.sample >= set.size()) {
    throw UsageError(
        fmt::format("look-at-data --sample {}: there are {}, counted from 0", args.sample,
                    set.size() == 1 ? "one sample" : fmt::format("{} samples", set.size())));
  }
  for (const std::string& note : set.notes()) say(stderr, "note: {}\n", note);
  for (int64_t i = args.sample; i < std::min(args.sample + args.count, set.size()); ++i) {
    const ShownSample sample = shown_sample(set, data.rules, i);
    if (args.json) {
      print_now(to_compact_json(json_of(sample, data.tokenizer.get())) + "\n");
    } else if (has_colours()) {
      print_coloured(sample, data.tokenizer.get());
    } else {
      print_now(page_of(sample, data.tokenizer.get()) + "\n");
    }
  }
  return 0;
}

}  // namespace ds
