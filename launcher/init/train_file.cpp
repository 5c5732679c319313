#include "launcher/init/train_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launcher/decide/text/json_text.h"

namespace ds {
namespace {

// Rows of matrices in multiples of this are fastest; ids beyond the tokenizer's are never drawn in
// text.
constexpr int64_t kVocabularyStep = 64;

constexpr double kFurtherRate = 5e-5;     // of a folder that goes on with texts
constexpr double kFineTuningRate = 2e-5;  // and of one that learns from examples
constexpr double kAdapterRate = 2e-4;     // and of adapters beside one
constexpr double kPreferenceRate = 1e-6;  // of a folder that learns from pairs of answers
constexpr double kPreferringAdapterRate = 1e-5;

std::string model_text(const TrainingChoices& c, const ModelSize* size) {
  if (size == nullptr) {
    return fmt::format(
        "  // A Hugging Face folder: its config.json says what is built, training starts from its "
        "weights.\n"
        "  \"model\": {},\n",
        json_string(c.model));
  }
  const int64_t vocabulary =
      (c.vocabulary + kVocabularyStep - 1) / kVocabularyStep * kVocabularyStep;
  return fmt::format(
      "  // A Llama of size \"{}\", from nothing. The vocabulary covers the tokenizer's {} ids.\n"
      "  \"model\": {{\"family\": \"llama\", \"num_hidden_layers\": {}, \"num_attention_heads\": "
      "{}, \"hidden_size\": {},\n"
      "            \"intermediate_size\": {}, \"max_position_embeddings\": {}, \"vocab_size\": "
      "{},\n"
      "            \"tie_word_embeddings\": true}},\n",
      size->name, c.vocabulary, size->layers, size->heads, size->width, size->inner,
      c.sequence_length, vocabulary);
}

// Held out only where it is surely more than a few samples: tokens of text have four bytes or so.
bool has_room_for_validation(const TrainingChoices& c) {
  constexpr int64_t kBytesPerToken = 4;
  constexpr int64_t kSamples = 4;
  constexpr int64_t kShare = 20;  // a twentieth
  return c.data_bytes &&
         *c.data_bytes / kShare >= kSamples * kBytesPerToken * (c.sequence_length + 1);
}

bool has_pairs(const TrainingChoices& c) { return c.format == "preference"; }

std::string_view data_comment(const TrainingChoices& c) {
  if (c.format.empty()) {
    return "Text, JSON lines, either compressed, token shards; files, folders, patterns. Paths are "
           "relative to this file.";
  }
  if (has_pairs(c)) {
    return "Pairs of a better answer and a worse one, which share a sample: `dslaunch "
           "look-at-data` shows them.";
  }
  return "Records of which a part is learnt: `dslaunch look-at-data` shows which. Several share a "
         "sample and do not see each other.";
}

std::string data_text(const TrainingChoices& c) {
  std::vector<std::string> paths;
  for (const std::string& path : c.data) paths.push_back(json_string(path));
  const std::string held_out =
      has_room_for_validation(c)
          ? "\n           \"validation_fraction\": 0.05,  // from the end, never trained on"
          : "";
  const std::string examples =
      c.format.empty()
          ? ""
          : fmt::format("           \"format\": {},{} \"too_long\": \"truncate\",\n",
                        json_string(c.format), has_pairs(c) ? "" : " \"packing\": true,");
  return fmt::format(
      "  // {}\n"
      "  \"data\": {{\"train\": [{}],{}\n"
      "{}"
      "           \"tokenizer\": {}, \"sequence_length\": {}}},\n",
      data_comment(c), fmt::join(paths, ", "), held_out, examples, json_string(c.tokenizer),
      c.sequence_length);
}

std::string preference_text(const TrainingChoices& c) {
  if (!has_pairs(c)) return "";
  return "\n  // The loss of pairs of answers. The reference is the model before training, which "
         "is asked once.\n"
         "  \"preference\": {\"loss_type\": \"sigmoid\", \"beta\": 0.1},\n";
}

std::string lora_text(const TrainingChoices& c) {
  if (!c.lora) return "";
  return "\n  // Low-rank adapters train, and the folder's own weights are frozen. final/ has the "
         "adapters alone;\n"
         "  // `dslaunch merge` makes a model of them and the folder.\n"
         "  \"lora\": {\"r\": 16, \"lora_alpha\": 32, \"lora_dropout\": 0.05, "
         "\"target_modules\": \"all-linear\"},\n";
}

double rate_of(const TrainingChoices& c, const ModelSize* size) {
  if (size != nullptr) return size->learning_rate;
  if (has_pairs(c)) return c.lora ? kPreferringAdapterRate : kPreferenceRate;
  if (c.lora) return kAdapterRate;
  return c.format.empty() ? kFurtherRate : kFineTuningRate;
}

std::string train_text(const TrainingChoices& c) {
  const int64_t save_every = std::max<int64_t>(1, c.steps / 4);
  const int64_t eval_every = std::max<int64_t>(1, c.steps / 10);
  const std::string evaluate =
      has_room_for_validation(c) ? fmt::format(", \"eval_every\": {}", eval_every) : "";
  return fmt::format(
      "  // The same command with the same --run-dir goes on from the newest checkpoint.\n"
      "  \"train\": {{\"steps\": {}, \"save_every\": {}{}}},\n",
      c.steps, save_every, evaluate);
}

}  // namespace

std::string train_file(const TrainingChoices& c, const std::string& name) {
  const ModelSize* const size = find_model_size(c.model);
  const int64_t warmup = std::clamp<int64_t>(c.steps / 10, 1, 2000);
  return fmt::format(
      "// Written by `dslaunch init`. DeepSpeed's keys mean what DeepSpeed says; `dslaunch schema "
      "--markdown` lists all.\n"
      "//   dslaunch check {0}     what is wrong with it\n"
      "//   dslaunch plan {0}      memory and traffic, before running\n"
      "//   dslaunch {0}           train\n"
      "{{\n{1}\n{2}\n{3}{12}\n"
      "  // Samples per step over all ranks, each of {4} tokens.\n"
      "  \"train_batch_size\": {5},\n"
      "  \"gradient_clipping\": 1.0,\n"
      "\n"
      "  \"optimizer\": {{\"type\": \"AdamW\", \"params\": {{\"lr\": {6}, \"betas\": [0.9, 0.95], "
      "\"weight_decay\": 0.1}}}},\n"
      "  // The rate rises for a tenth of the steps and falls to almost nothing: change "
      "total_num_steps with train.steps.\n"
      "  \"scheduler\": {{\"type\": \"WarmupCosineLR\",\n"
      "                \"params\": {{\"total_num_steps\": {7}, \"warmup_num_steps\": {8}, "
      "\"warmup_type\": \"linear\"}}}},\n"
      "\n"
      "  // What ranks share: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too. The "
      "results are equal.\n"
      "  \"zero_optimization\": {{\"stage\": {9}}},\n"
      "  // Faster where the CPU has instructions for it (`dslaunch env` says), and half the "
      "memory for activations.\n"
      "  \"bf16\": {{\"enabled\": {10}}},\n"
      "\n"
      "  \"steps_per_print\": {11}\n"
      "}}\n",
      name, model_text(c, size), data_text(c), train_text(c), c.sequence_length, c.batch,
      json_number(rate_of(c, size)), c.steps, warmup, c.zero_stage, c.bf16,
      std::clamp<int64_t>(c.steps / 20, 1, 100), lora_text(c) + preference_text(c));
}

}  // namespace ds
