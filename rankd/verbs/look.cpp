#include "rankd/verbs/look.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>

#include "cli/text/terminal_text.h"
#include "config/elastic_options.h"
#include "config/load.h"
#include "config/origins.h"
#include "config/reader/value.h"
#include "config/sections/sequence_split.h"
#include "config/sections/split/tensor.h"
#include "core/files/input_files.h"
#include "core/memory/adaptors.h"
#include "core/tasks/thread_pool.h"
#include "model/families/zoo.h"
#include "model/hf/adapter_weights.h"
#include "model/hf/weights.h"
#include "model/stores/plain_store.h"
#include "rankd/verbs/rehearsal.h"
#include "rankd/verbs/weights/resume_from.h"
#include "train/assemble.h"
#include "train/configured_model.h"
#include "train/reference/run_reference.h"
#include "train/samples/labelled_data.h"
#include "train/samples/supervised_data.h"
#include "train/settings/adapter_fit.h"
#include "train/settings/distillation_settings.h"
#include "train/step/pipeline.h"
#include "train/teacher.h"

namespace ds {
namespace {

class Looker {
 public:
  Looker(const Config& config, FileSystem& files) : config_(config), files_(files) {}

  InputFindings look() {
    if (config_.model.folder || config_.model.family) look_at_model();
    const DataSection& data = config_.data;
    if (data.supervised.is_used()) {
      if (model_) look_at_supervised_data();
      return std::move(found_);
    }
    if (model_ && (model_->classifier || model_->pairs || data.classification ||
                   data.token_classification || data.next_sentence)) {
      if (attempt("data", [&] { require_labelled(data, *model_); })) look_at_labelled_data();
      return std::move(found_);
    }
    // Nothing can be told of records of an unknown model but what is wrong with the model.
    if (!model_ &&
        (data.classification || data.token_classification || !config_.model.labels.empty()))
      return std::move(found_);
    look_at_tokenizer();
    if (!config_.data.train.empty()) look_at_data("data.train", config_.data.train);
    if (!config_.data.validation.empty()) look_at_data("data.validation", config_.data.validation);
    return std::move(found_);
  }

 private:
  void look_at_model();
  void look_at_adapters(const LoraConfig& lora);
  void look_at_partition();
  void look_at_teacher(const std::string& folder);
  void look_at_weights(const std::string& folder, const std::string& key = "model.folder");
  void look_at_labelled_data();
  void look_at_supervised_data();
  template <class Reader>
  void look_at_records(const Reader& reader);
  bool needs_tokenizer() const;
  void look_at_tokenizer();
  void look_at_data(const std::string& key, const std::vector<std::string>& paths);

  void add(const Error& error, const std::string& key) {
    // The constructors name the key themselves where they know it.
    KeyMessage said = split_key(error.what());
    if (said.key.empty()) said.key = key;
    found_.defects.push_back({error.exit_code(), std::move(said.key), std::move(said.what)});
  }
  // Whether it was done without an error.
  bool attempt(const std::string& key, const std::function<void()>& what) {
    try {
      what();
      return true;
    } catch (const Error& error) {
      add(error, key);
      return false;
    }
  }

  const Config& config_;
  FileSystem& files_;
  std::optional<ModelConfig> model_;  // none: it could not be told
  InputFindings found_;
};

void Looker::look_at_model() {
  const ModelSection& section = config_.model;
  const std::string key = section.folder ? "model.folder" : "model.family";
  attempt(key, [&] {
    const ModelConfig model = base_model(section, files_);
    check(model);
    model_ = model;
  });
  if (!model_) return;
  if (config_.lora) look_at_adapters(*config_.lora);
  attempt("data.sequence_length", [&] {
    const int64_t length = sequence_length(config_.data, *model_);
    const std::string why =
        sequence_conflict(dimensions(*model_), length, sequence_sharing(config_));
    if (!why.empty()) add(ConfigError(why), "sequence_parallel_size");
    const std::string tensor = tensor_conflict(*model_, tensor_split(config_));
    if (!tensor.empty()) add(ConfigError(tensor), std::string(tensor_key(config_)));
  });
  if (config_.train.distillation) look_at_teacher(config_.train.distillation->teacher);
  look_at_partition();
  attempt("pipeline.stages", [&] { require_stages(config_.pipeline, *model_); });
  const std::optional<std::string>& from = config_.train.resume_from;
  if (from) attempt("train.resume_from", [&] { require_weights(*from, *model_, files_); });
  // The config.json of a folder is all that is used of it then.
  if (section.folder && !from) look_at_weights(*section.folder);
}

// What is wrong with the model has been told by then.
void Looker::look_at_adapters(const LoraConfig& lora) {
  if (!attempt("lora.adapter", [&] { add_adapters(lora, files_, *model_); })) return;
  attempt("lora", [&] {
    for (const std::string& note : require_adapters(*model_)) {
      KeyMessage said = split_key(note);
      found_.notes.push_back({std::move(said.key), std::move(said.what)});
    }
  });
}

// What rules are for no layer of a family that the file describes has been noted where it was read.
void Looker::look_at_partition() {
  const std::string key = "tensor_parallel.partition_config";
  std::vector<std::string> idle;
  attempt(key, [&] { idle = require_partition(config_, *model_); });
  if (!config_.model.folder) return;
  for (std::string& note : idle) found_.notes.push_back({key, std::move(note)});
}

// Whether the model can learn from it is for the rehearsal, which comes next.
void Looker::look_at_teacher(const std::string& folder) {
  const std::string key = "train.distillation.teacher";
  std::optional<ModelConfig> teacher;
  if (!attempt(key, [&] { teacher = model_at(key, folder, files_); })) return;
  attempt(key, [&] { open_teacher(files_, folder, specs_of_model(*teacher, DType::kF32)); });
  ModelConfig learner = *model_;
  learner.teacher =
      std::make_shared<const Teacher>(Teacher{.model = *std::move(teacher), .folder = folder});
  for (const std::string& note : teacher_notes(learner)) {
    KeyMessage said = split_key(note);
    found_.notes.push_back({std::move(said.key), std::move(said.what)});
  }
}

// Names, shapes and types of all weights are in the headers of their files.
void Looker::look_at_weights(const std::string& folder, const std::string& key) {
  MetaMemory nowhere;
  ThreadPool pool(1);
  Stream stream({.device = Device::meta(), .memory = &nowhere, .pool = &pool});
  const std::optional<std::string> adapters =
      model_->adapters ? model_->adapters->folder : std::nullopt;
  attempt(adapters ? "lora.adapter" : key, [&] {
    PlainStore store(stream, 0, PlainStore::Gradients::kNone);
    make_model(*model_, DType::kF32,
               store);  // unsealed: a list of parameters, nothing is allocated
    const AdaptedWeights all(files_, folder, specs_of(store), absent_modules(*model_), adapters);
    const HfWeights& weights = all.base();
    const auto note = [&](std::string text) { found_.notes.push_back({key, std::move(text)}); };
    const std::string trained = hf_model_class(*model_);
    if (!weights.left_out().empty()) {
      note(fmt::format("{} are left out: {} has no place for them",
                       fmt::join(weights.left_out(), ", "), trained));
    }
    if (!weights.fresh().empty()) {
      const std::string& headless = weights.headless();
      note(fmt::format("{} begin anew, by train.seed: {} has no head, and {} is trained",
                       fmt::join(weights.fresh(), ", "),
                       headless.empty() ? "for these classes the folder" : headless, trained));
    }
  });
}

// Records are read through: which of them has no class is told nowhere else.
void Looker::look_at_labelled_data() {
  attempt("model", [&] {
    if (const std::string why = classes_conflict(config_, *model_); !why.empty()) {
      throw ConfigError(why);
    }
  });
  std::optional<LabelledReader> reader;
  if (!attempt("data.tokenizer", [&] { reader.emplace(config_.data, *model_, files_); })) return;
  if (model_->pairs) {
    attempt("data.masked_lm", [&] {
      masking_rules(config_.data, *model_, reader->tokenizer().get(), std::nullopt, files_);
    });
  }
  look_at_records(*reader);
}

template <class Reader>
void Looker::look_at_records(const Reader& reader) {
  for (const auto& [key, paths] : {std::pair("data.train", &config_.data.train),
                                   std::pair("data.validation", &config_.data.validation)}) {
    if (paths->empty()) continue;
    attempt(key, [&, name = key, texts = paths] {
      for (std::string& note : reader.open(*texts)->notes()) {
        found_.notes.push_back({name, std::move(note)});
      }
    });
  }
}

void Looker::look_at_supervised_data() {
  std::optional<SupervisedReader> reader;
  if (!attempt("data.format", [&] { reader.emplace(config_.data, *model_, files_); })) return;
  if (config_.preference && config_.preference->reference) {
    const std::string key = "preference.reference", &folder = *config_.preference->reference;
    if (attempt(key, [&] { require_same_kind(*model_, files_, folder); })) {
      look_at_weights(folder, key);
    }
  }
  look_at_records(*reader);
}

// Token ids need no tokenizer; what cannot be told is said of the data.
bool Looker::needs_tokenizer() const {
  const auto is_text = [&](const std::string& path) {
    try {
      return has_text(files_, std::span(&path, 1));
    } catch (const Error&) {
      return true;
    }
  };
  return std::ranges::any_of(config_.data.train, is_text) ||
         std::ranges::any_of(config_.data.validation, is_text);
}

void Looker::look_at_tokenizer() {
  const int64_t vocabulary = model_ ? dimensions(*model_).vocabulary : INT64_MAX;
  const auto look_at_samples = [&](const Tokenizer* tokenizer, const TextOptions& text) {
    const DocumentRules rules = document_rules(config_.data, tokenizer, text, vocabulary);
    if (model_) masking_rules(config_.data, *model_, tokenizer, rules.end, files_);
  };
  if (!needs_tokenizer()) {
    attempt("data", [&] { look_at_samples(nullptr, {}); });
    return;
  }
  // A folder that is not there has been told of, and has no tokenizer either.
  const std::string& name = config_.data.tokenizer;
  if (name == config_.model.folder && !files_.exists(name)) return;
  attempt("data.tokenizer", [&] {
    const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(files_, config_.data.tokenizer);
    for (std::string& note : tokenizer->notes())
      found_.notes.push_back({"data.tokenizer", std::move(note)});
    if (model_) check_vocabulary(*tokenizer, config_.data.tokenizer, vocabulary);
    look_at_samples(tokenizer.get(), text_options(config_.data, *tokenizer, files_));
  });
}

void Looker::look_at_data(const std::string& key, const std::vector<std::string>& paths) {
  TextOptions options{.field = config_.data.field};
  // Without a tokenizer its end token is not known, and does not matter here.
  if (config_.data.separator) options.after_text_file.text = *config_.data.separator;
  const size_t before = found_.defects.size();
  DataLook data =
      look_at_token_sources(files_, paths, options, [&](const Error& error) { add(error, key); });
  for (std::string& note : data.notes) found_.notes.push_back({key, std::move(note)});
  if (!model_ || found_.defects.size() != before) return;
  const int64_t length = config_.data.sequence_length.value_or(dimensions(*model_).positions);
  // Room for tokens that are not in the text, and for normal forms that are longer than what was
  // written.
  const int64_t tokens_of_byte = config_.data.tokenizer == "byte" ? 1 : 4;
  if (std::min(data.most_tokens, kManyTokens / tokens_of_byte) * tokens_of_byte > length) return;
  found_.defects.push_back(
      {ExitCode::kBadData, key,
       fmt::format(
           "too little for one sample of sequence length {}, which needs {} tokens in one source; "
           "give more text or a smaller data.sequence_length",
           length, length + 1)});
}

void add_continuation(const ContinuationLook& look, InputFindings& found) {
  const char* const key = "train.resume_from";
  if (!look.next.refusal.empty()) {
    found.defects.push_back({ExitCode::kValidation, key, look.next.refusal});
    return;
  }
  const auto note = [&](std::string text) { found.notes.push_back({key, std::move(text)}); };
  note(fmt::format("training begins with {}; {}", look.from, kNeverGoneOnWith));
  for (const std::string& change : look.next.changes) {
    note(fmt::format("{}; a run needs --accept-changes for that", change));
  }
  for (const std::string& text : look.next.notes) note(text);
  if (!look.left_out.empty()) {
    note(fmt::format("{} are left out: the model has no place for them",
                     fmt::join(look.left_out, ", ")));
  }
}

void look_at_resume_from(const Config& config, int ranks, FileSystem& files, InputFindings& found) {
  try {
    add_continuation(look_at_continuation(config, ranks, files), found);
  } catch (const Error& error) {
    KeyMessage said = split_key(error.what());
    if (said.key.empty()) said.key = "train.resume_from";
    found.defects.push_back({error.exit_code(), std::move(said.key), std::move(said.what)});
  }
}

}  // namespace

InputFindings look_at_inputs(const Config& config, FileSystem& files) {
  return Looker(config, files).look();
}

int run_look(const LookArgs& args) {
  const ReadConfig read = read_config(args.config_path, args.overrides);
  RealFileSystem files;
  InputFiles inputs(files);
  InputFindings found = look_at_inputs(read.config, inputs);
  if (found.defects.empty() && args.ranks > 0 && !read.problems.has_errors()) {
    const LimitCheck limits = args.has_limits ? LimitCheck::kOfPlan : LimitCheck::kNone;
    found.defects = rehearse(read.config, args.ranks, limits, inputs);
    if (found.defects.empty() && read.config.train.resume_from) {
      look_at_resume_from(read.config, args.ranks, inputs, found);
    }
  }
  print_findings(found);
  return static_cast<int>(ExitCode::kDone);
}

void print_findings(const InputFindings& found) {
  std::vector<Value> defects, notes;
  for (const InputDefect& defect : found.defects) {
    Value& one = defects.emplace_back(Value::object());
    one.set("code", Value::integer(static_cast<int>(defect.code)));
    one.set("key", Value::string(defect.key));
    one.set("what", Value::string(defect.what));
  }
  for (const InputNote& note : found.notes) {
    Value& one = notes.emplace_back(Value::object());
    one.set("key", Value::string(note.key));
    one.set("what", Value::string(note.what));
  }
  Value out = Value::object();
  out.set("defects", Value::list(std::move(defects)));
  out.set("notes", Value::list(std::move(notes)));
  say("{}\n", to_compact_json(out));
}

}  // namespace ds
