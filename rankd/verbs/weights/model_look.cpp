#include "rankd/verbs/weights/model_look.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "checkpoint/own_checkpoint.h"
#include "config/families/hf_config.h"
#include "config/reader/value.h"
#include "config/sections/adapters/adapter_file.h"
#include "core/device/tensor.h"
#include "core/files/input_files.h"
#include "core/status/error.h"
#include "core/text/join_some.h"
#include "core/values/index.h"
#include "data/chat_format.h"
#include "data/tokenizer/tokenizer.h"
#include "model/families/zoo.h"
#include "model/hf/weights.h"
#include "rankd/verbs/terminal/input_texts.h"
#include "rankd/verbs/weights/adapter_look.h"
#include "train/samples/labelled_data.h"

namespace ds {
namespace {

constexpr const char* kConfigFile = "config.json";
constexpr int64_t kMostOfConfig = int64_t{1} << 20;
constexpr size_t kMostNamed = 8;

std::string objective_of(const ModelConfig& model) {
  if (model.classifier) {
    const Classifier& classifier = *model.classifier;
    const std::string names = join_some(classifier.labels, kMostNamed);
    const size_t count = classifier.labels.size();
    switch (classifier.problem) {
      case ClassifierProblem::kNumbers:
        return fmt::format("{} of a text: {}",
                           count == 1 ? "a number" : fmt::format("{} numbers", count), names);
      case ClassifierProblem::kSeveralClasses:
        return fmt::format("for each of {} classes whether a text is of it: {}", count, names);
      case ClassifierProblem::kOneClass:
        return fmt::format("which of {} classes a {} is of: {}", count,
                           scores_tokens(model) ? "word" : "text", names);
    }
  }
  if (model.pairs) {
    return "tokens that are masked (data.masked_lm), and whether a text goes on another "
           "(data.next_sentence)";
  }
  return is_causal(model) ? "the next token" : "tokens that are masked (data.masked_lm)";
}

// Weights that are not read, by a part of their names, and what to do.
struct OtherWeights {
  std::string_view part, advice;
};
constexpr std::array kOtherWeights{
    OtherWeights{".gguf", "is of llama.cpp; take the folder that it was made of"},
    OtherWeights{"adapter_model.",
                 "has what adapters (LoRA) add to a model, and adapter_config.json is not beside "
                 "it, which says what they are"},
    OtherWeights{"-of-0",
                 "is one of several files, whose index is missing "
                 "(model.safetensors.index.json or pytorch_model.bin.index.json)"},
    OtherWeights{".h5", "is of TensorFlow; save the model with safetensors"},
    OtherWeights{".msgpack", "is of Flax; save the model with safetensors"},
    OtherWeights{".onnx", "is a program of ONNX; take the folder that it was made of"},
    OtherWeights{".pt", "is of PyTorch; `dslaunch convert` makes a folder of its weights"},
    OtherWeights{".ckpt", "is of PyTorch; `dslaunch convert` makes a folder of its weights"}};

// "; NAME ..." of the first file of each kind.
std::string join_weights_of_others(const FileSystem& files, const std::string& folder) {
  std::string text;
  const std::vector<DirectoryEntry> entries = files.list(folder);
  for (const OtherWeights& other : kOtherWeights) {
    const auto found = std::ranges::find_if(entries, [&](const DirectoryEntry& entry) {
      return entry.name.find(other.part) != std::string::npos;
    });
    if (found != entries.end()) text += fmt::format("; {} {}", found->name, other.advice);
  }
  return text;
}

// Looks at one folder.
class FolderLooker {
 public:
  FolderLooker(FileSystem& files, const std::string& folder) : files_(files) {
    found_.folder = folder;
  }

  ModelFolderLook look() {
    if (own_checkpoint(files_, found_.folder).kind != OwnCheckpoint::Kind::kNone) {
      found_.add_problem("model",
                         "is a run of dslaunch or one of its checkpoints; a model's folder is the "
                         "final/ of a run, or what `dslaunch convert` makes of a checkpoint");
      return std::move(found_);
    }
    const bool has_model = has_hf_weights(files_, found_.folder);
    const bool has_adapters_alone = !has_model && has_adapter(files_, found_.folder);
    if (has_adapters_alone) {
      model_ = look_at_adapters(files_, found_);
    } else {
      found_.attempt("model", [&] { look_at_model(); });
      if (has_model) {
        found_.attempt("weights", [&] { look_at_weights(); });
      } else if (model_) {
        report_missing_weights();
      }
    }
    std::optional<std::string> tokenizer;
    try {
      tokenizer = find_tokenizer(files_, found_.folder);
    } catch (const InputMissing&) {  // beside adapters that of their model counts
      if (model_ && !has_adapters_alone) {
        found_.add_note("tokenizer",
                        "there is none: data.tokenizer of a train.json has to name another one");
      }
    }
    if (tokenizer && found_.attempt("tokenizer", [&] { look_at_tokenizer(*tokenizer); })) {
      found_.attempt("chat template", [&] { look_at_chat(); });
    }
    return std::move(found_);
  }

 private:
  void look_at_model() {
    const std::string& folder = found_.folder;
    model_ = read_hf_config(files_, folder);
    check(*model_);
    specs_ = specs_of_model(*model_, DType::kF32);
    found_.add_fact("model", model_text(*model_));
    found_.add_fact("learns", objective_of(*model_));
    const std::string path = join_path(folder, kConfigFile);
    const std::vector<std::string> unread =
        unread_hf_keys(files_.read_text(path, kMostOfConfig), path);
    if (unread.empty()) return;
    found_.add_note("model",
                    fmt::format("{}: nothing is known here of \"{}\", and nothing is done with it; "
                                "results would be others if it changes what the model computes",
                                path, fmt::join(unread, "\", \"")));
  }

  void report_missing_weights() {
    found_.add_problem(
        "weights",
        fmt::format("there are none: no model.safetensors, pytorch_model.bin, or index of several "
                    "files; train.resume_from is all that its config.json is enough for{}",
                    join_weights_of_others(files_, found_.folder)));
  }

  void look_at_weights() {
    const std::string& folder = found_.folder;
    const WeightFolder stored = WeightFolder::open(files_, folder);
    found_.add_fact("weights", stored_text(stored));
    if (!model_) return;
    read_hf_model(files_, folder);  // compares the number of layers before all else
    const HfWeights weights(
        stored, folder, specs_,
        {.headless = headless_class(files_, folder), .modules = absent_modules(*model_)});
    if (const auto tied = weights.tied_embeddings()) compare_tied_head(weights, *tied);
    if (!weights.left_out().empty()) {
      found_.add_note("weights", fmt::format("{} has no place for {}, which training leaves out",
                                             hf_model_class(*model_),
                                             join_some(weights.left_out(), kMostNamed)));
    }
    if (!weights.fresh().empty()) {
      found_.add_note("weights",
                      fmt::format("{} has no head: {} begin anew if it is trained",
                                  weights.headless(), join_some(weights.fresh(), kMostNamed)));
    }
  }

  void compare_tied_head(const HfWeights& weights, size_t index) const {
    constexpr int64_t kAtATime = 1 << 20;
    const int64_t all = nth(specs_, index).logical_shape().numel();
    std::vector<float> values(to_size(std::min(all, kAtATime)));
    for (int64_t first = 0; first < all; first += kAtATime) {
      Tensor part = Tensor::borrow(values.data(), {std::min(kAtATime, all - first)}, DType::kF32);
      weights.read(index, first, part);
    }
  }

  void look_at_tokenizer(const std::string& place) {
    const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(files_, place);
    found_.add_fact("tokenizer", fmt::format("{}: {} tokens", place, tokenizer->vocab_size()));
    for (const std::string& text : tokenizer->notes()) found_.add_note("tokenizer", text);
    if (model_) check_vocabulary(*tokenizer, place, dimensions(*model_).vocabulary);
  }

  // Most folders of models that are not for chats have none.
  void look_at_chat() {
    try {
      ChatFormat::read(files_, found_.folder, "");
      found_.add_fact("chat template", "one that is understood: generate --chat, tokenize --chat");
    } catch (const InputMissing&) {
      found_.add_fact("chat template", "none");
    }
  }

  FileSystem& files_;
  std::optional<ModelConfig> model_;  // none: it could not be told
  std::vector<ParamSpec> specs_;
  ModelFolderLook found_;
};

Value lines_json(const std::vector<ModelFolderLook::Line>& lines) {
  std::vector<Value> list;
  for (const ModelFolderLook::Line& line : lines) {
    Value item = Value::object();
    item.set("part", Value::string(line.part));
    item.set("message", Value::string(line.text));
    list.push_back(std::move(item));
  }
  return Value::list(std::move(list));
}

std::string counted(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count == 0 ? "no" : std::to_string(count), what,
                     count == 1 ? "" : "s");
}

}  // namespace

ModelFolderLook look_at_model_folder(FileSystem& files, const std::string& folder) {
  return FolderLooker(files, folder).look();
}

std::string look_text(const ModelFolderLook& look) {
  std::string text;
  for (const auto& [part, what] : look.facts) text += fmt::format("{:<15}{}\n", part, what);
  for (const auto& [part, what] : look.problems) text += fmt::format("error: {}: {}\n", part, what);
  for (const auto& [part, what] : look.notes) text += fmt::format("note: {}: {}\n", part, what);
  return text + fmt::format("{}: {}, {}\n", look.folder, counted(look.problems.size(), "error"),
                            counted(look.notes.size(), "note"));
}

std::string look_json(const ModelFolderLook& look) {
  Value out = Value::object();
  out.set("ok", Value::boolean(look.problems.empty()));
  out.set("folder", Value::string(look.folder));
  out.set("facts", lines_json(look.facts));
  out.set("problems", lines_json(look.problems));
  out.set("notes", lines_json(look.notes));
  return to_json(out);
}

int run_check_of_folder(const CheckOptions& options) {
  if (!options.overrides.empty() || options.num_ranks) {
    throw UsageError(fmt::format(
        "check: {} is a folder; KEY=VALUE and --num-ranks are for a train.json", options.config));
  }
  RealFileSystem real;
  InputFiles files(real);
  const ModelFolderLook look = look_at_model_folder(files, options.config);
  print_now(options.json ? look_json(look) : look_text(look));
  return static_cast<int>(look.problems.empty() ? ExitCode::kDone : ExitCode::kConfig);
}

}  // namespace ds
