#include "config/sections/training.h"

#include <fmt/format.h>

#include <tuple>

#include "core/values/index.h"

namespace ds {

std::span<const EnumName> names_of(DataOrder) {
  static constexpr EnumName kNames[] = {
      {"shuffled", static_cast<int>(DataOrder::kShuffled)},
      {"sequential", static_cast<int>(DataOrder::kSequential)},
  };
  return kNames;
}

std::span<const EnumName> names_of(ResumeMode) {
  static constexpr EnumName kNames[] = {
      {"auto", static_cast<int>(ResumeMode::kAuto)},
      {"required", static_cast<int>(ResumeMode::kRequired)},
      {"never", static_cast<int>(ResumeMode::kNever)},
  };
  return kNames;
}

std::span<const EnumName> names_of(CommunicationBackend) {
  static constexpr EnumName kNames[] = {
      {"auto", static_cast<int>(CommunicationBackend::kAuto)},
      {"shm", static_cast<int>(CommunicationBackend::kShm)},
      {"tcp", static_cast<int>(CommunicationBackend::kTcp)},
      {"mpi", static_cast<int>(CommunicationBackend::kMpi)},
      {"nccl", static_cast<int>(CommunicationBackend::kNccl)},
  };
  return kNames;
}

namespace {

// visit(family, "family is NAME", config) for each family that this build has.
template <class Section, class Visit>
void each_built(Section& section, const Visit& visit) {
  static const std::vector<std::string> conditions = [] {
    std::vector<std::string> out;
    for (const std::string_view name : built_families()) {
      out.push_back(fmt::format("family is {}", name));
    }
    return out;
  }();
  std::apply(
      [&](auto&... config) {
        int place = 0;
        ((visit(static_cast<ModelFamily>(place), nth(conditions, place), config), ++place), ...);
      },
      section.built);
}

}  // namespace

std::optional<ModelConfig> described_model(const ModelSection& c) {
  std::optional<ModelConfig> found;
  if (c.folder) return found;
  each_built(c, [&](ModelFamily family, std::string_view /*condition*/, const auto& config) {
    if (c.family == family) found = config;
  });
  if (found && c.task == ClassifierTask::kPairs) {
    found->pairs = PairHead();
  } else if (found && !c.labels.empty()) {
    found->classifier = Classifier{.labels = c.labels,
                                   .task = c.task.value_or(ClassifierTask::kTexts),
                                   .problem = c.problem_type.value_or(problem_of(c.labels))};
  }
  return found;
}

void fields(Visitor& v, ModelSection& c) {
  v.field("folder", c.folder,
          {.meaning = "Hugging Face folder with config.json and weights (safetensors or "
                      "pytorch_model.bin); short form: \"model\": \"path\".",
           .effect = Effect::kUsed});
  v.field("family", c.family,
          {.meaning = "Kind of model to build from the fields below.",
           .effect = Effect::kUsed,
           .only = built_families()});
  v.field(
      "labels", c.labels,
      {.meaning = "Names of classes, in the order of their numbers: the model scores which of them "
                  "a text or a token is of, by a head that begins anew if the folder has none. "
                  "Silent: a folder of a class such as BertForSequenceClassification has its own, "
                  "and others tell tokens.",
       .effect = Effect::kUsed});
  v.field("task", c.task,
          {.meaning = "Of what the classes are: sequence_classification, of each text; "
                      "token_classification, of each word of a text. With "
                      "next_sentence_prediction, a bert tells masked tokens and, beside them, "
                      "whether the second of two texts goes on where the first one ends; it has "
                      "two classes of its own.",
           .effect = Effect::kUsed,
           .unset_meaning = "the folder's, or sequence_classification where labels are given"});
  v.field("problem_type", c.problem_type,
          {.meaning = "What the scores of a text are, by the words of transformers' config.json: "
                      "single_label_classification, it is of the class with the highest one; "
                      "regression, they are numbers that it has, such as a rating; "
                      "multi_label_classification, it is of each class whose score is above 0.",
           .effect = Effect::kUsed,
           .unset_meaning = "the folder's; with one label regression, and otherwise "
                            "single_label_classification"});
  const auto is = [&](ModelFamily family) { return c.family == family; };
  each_built(c, [&](ModelFamily family, std::string_view condition, auto& config) {
    v.when(is(family), condition, [&] { fields(v, config); });
  });
  v.when(is(ModelFamily::kMoeGpt), "family is moe_gpt", [&] { fields(v, c.moe_gpt); });
  v.when(is(ModelFamily::kResNet), "family is resnet", [&] { fields(v, c.resnet); });
}

namespace {

// Whether documents within a sample are told apart.
void fields_of_documents(Visitor& v, DataSection& c) {
  v.field("eod_token_id", c.eod_token_id,
          {.meaning = "The id of the token that ends a document, for the three keys below.",
           .effect = Effect::kUsed,
           .min = 0,
           .unset_meaning = "the token that separator is, or the eos_token that is put after JSON "
                            "lines"});
  v.field("reset_attention_mask", c.reset_attention_mask,
          {.meaning = "Whether tokens attend within their document alone, and not to those before "
                      "it in the sample. The name is Megatron-LM's, as of the next two.",
           .effect = Effect::kUsed});
  v.field("reset_position_ids", c.reset_position_ids,
          {.meaning = "Whether positions begin anew with each document.", .effect = Effect::kUsed});
  v.field("eod_mask_loss", c.eod_mask_loss,
          {.meaning = "Whether the first token of a document is no target, since nothing before "
                      "it tells of it. Losses and gradients are the mean over what is left of the "
                      "global batch.",
           .effect = Effect::kUsed});
}

}  // namespace

void fields(Visitor& v, MaskedLmConfig& c) {
  const auto share = [&](std::string_view key, double& slot, const char* meaning) {
    v.field(key, slot, {.meaning = meaning, .effect = Effect::kUsed, .min = 0, .max = 1});
  };
  v.field("mlm_probability", c.mlm_probability,
          {.meaning = "Share of the tokens that are chosen, each by itself: the model is to tell "
                      "what they were. Others are chosen each time that a sample comes.",
           .effect = Effect::kUsed,
           .above = 0,
           .max = 1});
  share("mask_replace_prob", c.mask_replace_prob,
        "Share of the chosen tokens in whose place the mask stands.");
  share("random_replace_prob", c.random_replace_prob,
        "Share of the chosen tokens in whose place any token of the vocabulary stands; what is "
        "left stays as it is.");
  v.field("whole_word_mask", c.whole_word_mask,
          {.meaning = "Whether words are chosen instead, all of their tokens together; white space "
                      "ends a word.",
           .effect = Effect::kUsed});
  v.field("mask_token_id", c.mask_token_id,
          {.meaning = "The id of the token that masks others.",
           .effect = Effect::kUsed,
           .min = 0,
           .unset_meaning = "the mask_token of the files beside the tokenizer"});
}

void fields(Visitor& v, NextSentenceConfig& c) {
  v.field("random_next_prob", c.random_next_prob,
          {.meaning = "Share of the pairs whose second text is from another document.",
           .effect = Effect::kUsed,
           .min = 0,
           .max = 1});
  v.field(
      "short_seq_prob", c.short_seq_prob,
      {.meaning = "Share of the pairs that are made shorter than a sample, each for a length of "
                  "its own. The name is that of BERT's and Megatron-LM's programs.",
       .effect = Effect::kUsed,
       .min = 0,
       .max = 1});
}

void fields(Visitor& v, ClassificationConfig& c) {
  v.field("text", c.text, {.meaning = "The field or column of texts.", .effect = Effect::kUsed});
  v.field("text_pair", c.text_pair,
          {.meaning = "That of a second text, which follows the first in the same sample.",
           .effect = Effect::kUsed,
           .unset_meaning = "samples are one text"});
  v.field("label", c.label,
          {.meaning = "That of classes: their names, or their numbers from 0 on. With "
                      "model.problem_type regression it is that of numbers, and with "
                      "multi_label_classification that of lists: the names or numbers of the "
                      "classes, or a number from 0 to 1 for each.",
           .effect = Effect::kUsed});
}

void fields(Visitor& v, TokenClassificationConfig& c) {
  v.field(
      "tokens", c.tokens,
      {.meaning = "The field of JSON lines that has the list of words.", .effect = Effect::kUsed});
  v.field("labels", c.labels,
          {.meaning = "That of the list of their classes: names, or numbers from 0 on.",
           .effect = Effect::kUsed});
  v.field(
      "label_all_tokens", c.label_all_tokens,
      {.meaning = "Whether all tokens of a word have its class (behind the first one I-X in the "
                  "place of B-X, where there is one), and not the first one alone.",
       .effect = Effect::kUsed});
  v.field("add_prefix_space", c.add_prefix_space,
          {.meaning = "Whether words have a space before them where the tokenizer works on bytes, "
                      "as those of GPT-2 and RoBERTa do: within a text they have one.",
           .effect = Effect::kUsed});
}

namespace {

// What models that are trained for something else than next tokens have of their own.
void sections_of_models(Visitor& v, DataSection& c) {
  v.section("masked_lm", c.masked_lm,
            {.meaning = "How tokens are masked for models that see both sides, such as bert.",
             .effect = Effect::kUsed});
  v.section("next_sentence", c.next_sentence,
            {.meaning = "How pairs of texts are made for a model with model.task "
                        "next_sentence_prediction. A text file has a sentence a line and an empty "
                        "line between documents; of JSON lines each is a document, with a sentence "
                        "a line.",
             .effect = Effect::kUsed});
  v.section(
      "classification", c.classification,
      {.meaning = "Where data of models that score classes have texts and their classes: JSON "
                  "lines, .csv (quoted as RFC 4180 has it) or .tsv (without quotes), the first "
                  "line of which names the columns.",
       .effect = Effect::kUsed});
  v.section("token_classification", c.token_classification,
            {.meaning = "Where data of models that score classes of tokens have words and their "
                        "classes: JSON lines, or files of CoNLL's form (.conll, .bio, .iob, .iob2, "
                        ".txt, .tsv), which have a word a line, its class in the last column, and "
                        "an empty line between sentences.",
             .effect = Effect::kUsed});
}

}  // namespace

void fields(Visitor& v, DataSection& c) {
  v.field(
      "train", c.train,
      {.meaning =
           "Training data: files, folders (all files in them but those that begin with . or _), or "
           "patterns with * ? [ ] of text, JSON lines (.jsonl, .jsonlines, .jl, .ndjson, .json), "
           "both also compressed with gzip or zstd, llm.c token shards, or the prefix of an "
           "indexed dataset.",
       .effect = Effect::kUsed,
       .one_or_list = true});
  v.field(
      "weights", c.weights,
      {.meaning =
           "How often samples of each entry of train are drawn, relative to each other. An epoch "
           "then "
           "holds each sample at least once, and those of entries with more weight for their size "
           "several times. None: each sample once.",
       .effect = Effect::kUsed,
       .above = 0});
  v.field("validation", c.validation,
          {.meaning = "Validation data, as train.", .effect = Effect::kUsed, .one_or_list = true});
  v.field("validation_fraction", c.validation_fraction,
          {.meaning = "Share of the training tokens kept for validation, taken from the end; only "
                      "without validation files.",
           .effect = Effect::kUsed,
           .min = 0,
           .below = 1});
  v.field("field", c.field,
          {.meaning = "The field of each JSON line that holds its text.", .effect = Effect::kUsed});
  v.field("separator", c.separator,
          {.meaning = "What is put after each document, which is a JSON line or a text file: the "
                      "name of a token "
                      "of the tokenizer, or any text.",
           .effect = Effect::kUsed,
           .unset_meaning = "after JSON lines the eos_token of the files beside the tokenizer or, "
                            "without one, a line feed; after text files nothing"});
  fields_of_documents(v, c);
  fields_of_supervised(v, c.supervised);
  sections_of_models(v, c);
  v.field("tokenizer", c.tokenizer,
          {.meaning = "\"byte\" (256 tokens), or a file of a tokenizer (tokenizer.json, "
                      "tokenizer.model, tekken.json and others) or the folder that holds it. "
                      "Where model.folder is given, that folder is the default.",
           .effect = Effect::kUsed});
  v.field("cache_folder", c.cache_folder,
          {.meaning = "The folder where token ids of text files of 16 MiB and more (compressed: 4 "
                      "MiB) are kept: one process of a host tokenises them, in memory that does "
                      "not grow with them, and later runs find them by the content of text and "
                      "tokenizer. \"\" keeps none: each rank holds all ids in memory.",
           .effect = Effect::kUsed,
           .unset_meaning = "$XDG_CACHE_HOME/dslaunch/tokens, or ~/.cache/dslaunch/tokens"});
  v.field("sequence_length", c.sequence_length,
          {.meaning = "Tokens per sample.",
           .effect = Effect::kUsed,
           .min = 1,
           .unset_meaning = "the model's longest sequence"});
  v.field("order", c.order,
          {.meaning = "sequential: sample k is tokens [k*T, k*T+T] in file order; shuffled: the "
                      "same samples, permuted anew in every epoch.",
           .effect = Effect::kUsed});
}

namespace {

// What only GPUs have a choice in.
// What follows from the losses of evaluations. The names are those of transformers.
void fields_of_the_best(Visitor& v, TrainSection& c) {
  v.field("keep_best", c.keep_best,
          {.meaning = "Whether the state with the least validation loss is saved and kept beside "
                      "the newest checkpoints, and becomes the model in final/.",
           .effect = Effect::kUsed,
           .synonyms = {"load_best_model_at_end"}});
  v.field("early_stopping_patience", c.early_stopping_patience,
          {.meaning = "After so many evaluations in turn whose loss is not less than the least one "
                      "before, training ends as if all steps were made; 0: it goes on.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("early_stopping_threshold", c.early_stopping_threshold,
          {.meaning = "A loss counts for that only if it is less by more than this.",
           .effect = Effect::kUsed,
           .min = 0});
}

void fields_of_gpus(Visitor& v, TrainSection& c) {
  v.field(
      "cuda_graphs", c.cuda_graphs,
      {.meaning = "On GPUs, whether the work of a step is recorded in the second step and given "
                  "to the GPU as a whole from then on, which spares the host thousands of "
                  "launches. Groups that go through memory of the host cannot be recorded: "
                  "with them, with stages of a pipeline, where ranks exchange heads or share "
                  "layers beside "
                  "zero_optimization.overlap_comm, and on the CPU, steps are given kernel by "
                  "kernel.",
       .effect = Effect::kUsed});
  v.field("allow_tf32", c.allow_tf32,
          {.meaning = "On GPUs, whether products of fp32 round their factors to TF32, which has 10 "
                      "bits behind the point and goes by tensor cores; sums stay fp32. Products of "
                      "bf16, and those of CPUs, stay as they are.",
           .effect = Effect::kUsed});
  v.field("tune_matmul", c.tune_matmul,
          {.meaning = "On GPUs, whether each product of the first step tries eight algorithms of "
                      "cuBLASLt and takes the quickest, where the first that it proposes is taken "
                      "otherwise. The choices are kept for later runs, in "
                      "$XDG_CACHE_HOME/dslaunch or ~/.cache/dslaunch: with others the last bits "
                      "of a run differ.",
           .effect = Effect::kUsed});
  v.field("deterministic_attention", c.deterministic_attention,
          {.meaning = "On GPUs, whether each run of attention's backward pass has the same bits. "
                      "Before Blackwell, cuDNN takes longer for that, and memory that grows with "
                      "the square of the sequence; without it two runs differ in their last bits. "
                      "Attention of CPUs, and our own kernels for GPUs, are deterministic always.",
           .effect = Effect::kUsed});
}

void chosen_parameters(Visitor& v, TrainSection& c) {
  v.field("train_only", c.train_only,
          {.meaning = "Only parameters train whose whole name fits one of the patterns, which are "
                      "those of optimizer.param_groups; all others are frozen. Names are those of "
                      "the model's folder, as final/ has them. None: all train.",
           .effect = Effect::kUsed,
           .one_or_list = true});
  v.field("freeze", c.freeze,
          {.meaning = "Parameters that fit one of these patterns are frozen, also if they fit "
                      "train_only: they keep the bits that training begins with, and have no "
                      "gradient, no optimizer state and no fp32 master.",
           .effect = Effect::kUsed,
           .one_or_list = true});
}

void evaluation_fields(Visitor& v, TrainSection& c) {
  v.field("eval_every", c.eval_every,
          {.meaning = "Steps between evaluations; 0 evaluates at the end only.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("eval_batches", c.eval_batches,
          {.meaning = "Batches per evaluation, each a micro-batch on every rank; 0 takes the whole "
                      "validation set, as far as it makes whole batches.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("sample_prompt", c.sample_prompt,
          {.meaning = "A text that the model goes on with whenever it is evaluated, also without "
                      "validation data: a line in the log, drawn as `dslaunch generate` draws.",
           .effect = Effect::kUsed,
           .unset_meaning = "no text"});
  v.field("sample_length", c.sample_length,
          {.meaning = "Tokens of that text, the prompt's included.",
           .effect = Effect::kUsed,
           .min = 2,
           .unset_meaning = "128, or the model's longest"});
}

void resume_fields(Visitor& v, TrainSection& c) {
  v.field("resume", c.resume,
          {.meaning = "auto continues from the newest checkpoint if there is one, required fails "
                      "without one, never starts anew.",
           .effect = Effect::kUsed});
  v.field(
      "resume_from", c.resume_from,
      {.meaning = "A checkpoint of DeepSpeed that training begins with, in place of new weights "
                  "or those of model.folder: the folder of one (global_step10), or the one "
                  "that holds some, of which the file latest names one. Weights, fp32 "
                  "masters, the optimizer's moments, the numbers of steps and updates and the "
                  "loss scale go on from it, on any number of ranks and at any stage of ZeRO. "
                  "Checkpoints of the run itself come first.",
       .effect = Effect::kUsed,
       .unset_meaning = "none"});
}

}  // namespace

void fields(Visitor& v, TrainSection& c) {
  v.field("steps", c.steps,
          {.meaning = "Optimizer steps to train.", .effect = Effect::kUsed, .min = 0});
  v.field("epochs", c.epochs,
          {.meaning = "Passes over the training data, instead of steps.",
           .effect = Effect::kUsed,
           .above = 0});
  v.field("seed", c.seed,
          {.meaning = "Seed of initial weights, dropout and the order of samples.",
           .effect = Effect::kUsed,
           .min = 0});
  chosen_parameters(v, c);
  v.section("distillation", c.distillation,
            {.meaning = "Learning from another model, the teacher, beside the text."});
  evaluation_fields(v, c);
  v.field("save_every", c.save_every,
          {.meaning = "Steps between checkpoints; 0 saves at the end only.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field(
      "save_at_end", c.save_at_end,
      {.meaning = "Whether the state and the trained model are saved when all steps are done. A "
                  "run that is stopped before is saved either way.",
       .effect = Effect::kUsed});
  v.field(
      "keep_checkpoints", c.keep_checkpoints,
      {.meaning = "Newest checkpoints to keep; 0 keeps all.", .effect = Effect::kUsed, .min = 0});
  fields_of_the_best(v, c);
  v.field("save_in_memory_every", c.save_in_memory_every,
          {.meaning =
               "Steps between states kept in the memory of the hosts: after the loss of a process "
               "training goes on from there and not from the newest checkpoint. Takes twice the "
               "state of a host's ranks; 0 keeps none.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("copy_in_memory_every", c.copy_in_memory_every,
          {.meaning =
               "Steps between states in memory of which another host keeps a copy: after the loss "
               "of a host of several training goes on from there. Takes twice the state of another "
               "host's ranks and, where fewer states are copied than kept, twice that of the "
               "host's own again.",
           .effect = Effect::kUsed,
           .min = 1,
           .unset_meaning = "save_in_memory_every"});
  v.field(
      "log_every", c.log_every,
      {.meaning = "Steps between lines of metrics.jsonl and metrics.csv; the first step, the last "
                  "and those with an evaluation always have one.",
       .effect = Effect::kUsed,
       .min = 1});
  fields_of_gpus(v, c);
  v.field("offload_activations", c.offload_activations,
          {.meaning = "Whether what the backward pass needs again waits for it in memory of the "
                      "host. It is copied there and back while the device computes.",
           .effect = Effect::kUsed});
  resume_fields(v, c);
  v.field("final_dtype", c.final_dtype,
          {.meaning = "Number type of the weights in final/.",
           .effect = Effect::kUsed,
           .unset_meaning = "fp32, as they are trained; with "
                            "stage3_gather_16bit_weights_on_model_save at ZeRO stage 3 "
                            "that of fp16 or bf16"});
}

void fields(Visitor& v, CommunicationSection& c) {
  v.field(
      "backend", c.backend,
      {.meaning =
           "Over what ranks exchange gradients and weights. auto: shm where all ranks are "
           "started on this machine, tcp where hosts are named. shm: memory that ranks of one "
           "host share. tcp: connections between any ranks, also of one host. mpi: the MPI of "
           "mpirun or srun, which then start one dslaunch for each rank; a failure of a rank "
           "ends the job. What lies on GPUs goes by NCCL: with auto where each rank has a GPU of "
           "its own and NCCL, with nccl always or not at all, with the others never. shm, tcp and "
           "mpi give equal bits.",
       .effect = Effect::kUsed});
}

void fields(Visitor& v, MemorySection& c) {
  v.field("device_limit", c.device_limit,
          {.meaning = "Bytes that a rank may take of its device for tensors, as a size (4GiB, "
                      "200 MB): a job whose plan needs more is refused before it begins. On a CPU "
                      "that is the memory for all that is not offloaded.",
           .effect = Effect::kUsed,
           .unset_meaning = "no limit but the device's own"});
  v.field("host_limit", c.host_limit,
          {.meaning = "Likewise of the host's memory, for what is offloaded to it and the buffers "
                      "that go with it.",
           .effect = Effect::kUsed,
           .unset_meaning = "no limit but the machine's own"});
}

}  // namespace ds
