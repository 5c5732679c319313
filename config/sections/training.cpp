#include "config/sections/training.h"

#include "core/model_limits.h"

namespace ds {

std::span<const EnumName> names_of(ModelFamily) {
  static constexpr EnumName kNames[] = {
      {"gpt2", static_cast<int>(ModelFamily::kGpt2)},
      {"llama", static_cast<int>(ModelFamily::kLlama)},
      {"bert", static_cast<int>(ModelFamily::kBert)},
      {"moe_gpt", static_cast<int>(ModelFamily::kMoeGpt)},
      {"resnet", static_cast<int>(ModelFamily::kResNet)},
  };
  return kNames;
}

std::span<const EnumName> names_of(MoeMlpType) {
  static constexpr EnumName kNames[] = {
      {"standard", static_cast<int>(MoeMlpType::kStandard)},
      {"residual", static_cast<int>(MoeMlpType::kResidual)},
  };
  return kNames;
}

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

void fields(Visitor& v, Gpt2Section& c) {
  v.field(
      "n_layer", c.n_layer,
      {.meaning = "Transformer layers.", .effect = Effect::kUsed, .min = 1, .max = kMostLayers});
  v.field("n_head", c.n_head,
          {.meaning = "Attention heads; divides n_embd.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostHeads});
  v.field("n_embd", c.n_embd,
          {.meaning = "Width of the hidden state.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestWidth});
  v.field("n_inner", c.n_inner,
          {.meaning = "Width of the MLP.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestInnerWidth,
           .unset_meaning = "4 * n_embd"});
  v.field("n_positions", c.n_positions,
          {.meaning = "Longest sequence, in tokens.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostPositions});
  v.field("vocab_size", c.vocab_size,
          {.meaning = "Tokens in the vocabulary.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestVocabulary});
  v.field("activation_function", c.activation_function,
          {.meaning = "Activation of the MLP: gelu_new (tanh form), gelu, or relu.",
           .effect = Effect::kUsed});
  v.field(
      "resid_pdrop", c.resid_pdrop,
      {.meaning = "Dropout after each sub-layer.", .effect = Effect::kUsed, .min = 0, .below = 1});
  v.field(
      "embd_pdrop", c.embd_pdrop,
      {.meaning = "Dropout after the embeddings.", .effect = Effect::kUsed, .min = 0, .below = 1});
  v.field(
      "attn_pdrop", c.attn_pdrop,
      {.meaning = "Dropout on attention weights.", .effect = Effect::kUsed, .min = 0, .below = 1});
  v.field("layer_norm_epsilon", c.layer_norm_epsilon,
          {.meaning = "Epsilon of the layer norms.", .effect = Effect::kUsed, .above = 0});
  v.field("initializer_range", c.initializer_range,
          {.meaning = "Standard deviation of initial weights.", .effect = Effect::kUsed, .min = 0});
  v.field(
      "tie_word_embeddings", c.tie_word_embeddings,
      {.meaning = "The output projection shares the token embedding.", .effect = Effect::kUsed});
}

void fields(Visitor& v, LlamaSection& c) {
  v.field(
      "num_hidden_layers", c.num_hidden_layers,
      {.meaning = "Transformer layers.", .effect = Effect::kUsed, .min = 1, .max = kMostLayers});
  v.field("num_attention_heads", c.num_attention_heads,
          {.meaning = "Query heads.", .effect = Effect::kUsed, .min = 1, .max = kMostHeads});
  v.field("num_key_value_heads", c.num_key_value_heads,
          {.meaning = "Key and value heads; divides num_attention_heads.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostHeads,
           .unset_meaning = "num_attention_heads"});
  v.field("hidden_size", c.hidden_size,
          {.meaning = "Width of the hidden state.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestWidth});
  v.field("head_dim", c.head_dim,
          {.meaning = "Width of one head.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestWidth,
           .unset_meaning = "hidden_size / num_attention_heads"});
  v.field("intermediate_size", c.intermediate_size,
          {.meaning = "Width of the MLP.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestInnerWidth});
  v.field("max_position_embeddings", c.max_position_embeddings,
          {.meaning = "Longest sequence, in tokens.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostPositions});
  v.field("vocab_size", c.vocab_size,
          {.meaning = "Tokens in the vocabulary.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestVocabulary});
  v.field("hidden_act", c.hidden_act,
          {.meaning = "Gate activation of the MLP.", .effect = Effect::kUsed, .only = {"silu"}});
  v.field("rms_norm_eps", c.rms_norm_eps,
          {.meaning = "Epsilon of the norms.", .effect = Effect::kUsed, .above = 0});
  v.field("rope_theta", c.rope_theta,
          {.meaning = "Base of the rotary frequencies.", .effect = Effect::kUsed, .above = 0});
  v.field("attention_bias", c.attention_bias,
          {.meaning = "The attention projections have biases.", .effect = Effect::kUsed});
  v.field("mlp_bias", c.mlp_bias,
          {.meaning = "The MLP projections have biases.", .effect = Effect::kUsed});
  v.field(
      "attention_dropout", c.attention_dropout,
      {.meaning = "Dropout on attention weights.", .effect = Effect::kUsed, .min = 0, .below = 1});
  v.field("initializer_range", c.initializer_range,
          {.meaning = "Standard deviation of initial weights.", .effect = Effect::kUsed, .min = 0});
  v.field(
      "tie_word_embeddings", c.tie_word_embeddings,
      {.meaning = "The output projection shares the token embedding.", .effect = Effect::kUsed});
}

void fields(Visitor& v, BertSection& c) {
  v.field("num_hidden_layers", c.num_hidden_layers,
          {.meaning = "Transformer layers.", .min = 1, .max = kMostLayers});
  v.field("num_attention_heads", c.num_attention_heads,
          {.meaning = "Attention heads; divides hidden_size.", .min = 1, .max = kMostHeads});
  v.field("hidden_size", c.hidden_size,
          {.meaning = "Width of the hidden state.", .min = 1, .max = kLargestWidth});
  v.field("intermediate_size", c.intermediate_size,
          {.meaning = "Width of the MLP.", .min = 1, .max = kLargestInnerWidth});
  v.field("max_position_embeddings", c.max_position_embeddings,
          {.meaning = "Longest sequence, in tokens.", .min = 1, .max = kMostPositions});
  v.field("type_vocab_size", c.type_vocab_size, {.meaning = "Segment types.", .min = 1});
  v.field("vocab_size", c.vocab_size,
          {.meaning = "Tokens in the vocabulary.", .min = 1, .max = kLargestVocabulary});
  v.field("hidden_act", c.hidden_act, {.meaning = "Activation of the MLP."});
  v.field("hidden_dropout_prob", c.hidden_dropout_prob,
          {.meaning = "Dropout after embeddings and sub-layers.", .min = 0, .below = 1});
  v.field("attention_probs_dropout_prob", c.attention_probs_dropout_prob,
          {.meaning = "Dropout on attention weights.", .min = 0, .below = 1});
  v.field("layer_norm_eps", c.layer_norm_eps,
          {.meaning = "Epsilon of the layer norms.", .above = 0});
  v.field("initializer_range", c.initializer_range,
          {.meaning = "Standard deviation of initial weights.", .min = 0});
}

void fields(Visitor& v, MoeGptSection& c) {
  fields(v, c.gpt2);
  v.field("num_experts", c.num_experts,
          {.meaning = "Experts of each MoE layer, or one number for all of them.",
           .min = 1,
           .one_or_list = true});
  v.field("expert_interval", c.expert_interval,
          {.meaning = "Every how many layers the MLP is a mixture of experts.", .min = 1});
  v.field("k", c.k, {.meaning = "Experts per token.", .min = 1});
  v.field("capacity_factor", c.capacity_factor,
          {.meaning = "Places per expert in training, relative to an even spread.", .above = 0});
  v.field("eval_capacity_factor", c.eval_capacity_factor,
          {.meaning = "The same in evaluation.", .above = 0});
  v.field("min_capacity", c.min_capacity,
          {.meaning = "Fewest places per expert, in tokens.", .min = 0});
  v.field("moe_loss_coeff", c.moe_loss_coeff,
          {.meaning = "Weight of the load-balance loss.", .min = 0});
  v.field("drop_tokens", c.drop_tokens, {.meaning = "Tokens beyond the capacity are dropped."});
  v.field("mlp_type", c.mlp_type,
          {.meaning = "residual adds a dense MLP beside the experts (PR-MoE)."});
}

void fields(Visitor& v, ResNetSection& c) {
  v.field("num_channels", c.num_channels, {.meaning = "Channels of the image.", .min = 1});
  v.field("embedding_size", c.embedding_size, {.meaning = "Channels of the stem.", .min = 1});
  v.field("hidden_sizes", c.hidden_sizes, {.meaning = "Channels of each stage.", .min = 1});
  v.field("depths", c.depths, {.meaning = "Blocks of each stage.", .min = 1});
  v.field("layer_type", c.layer_type, {.meaning = "Kind of block: basic or bottleneck."});
  v.field("image_size", c.image_size, {.meaning = "Edge of the image, in pixels.", .min = 1});
  v.field("num_labels", c.num_labels, {.meaning = "Classes.", .min = 1});
}

void fields(Visitor& v, ModelSection& c) {
  v.field("folder", c.folder,
          {.meaning = "Hugging Face folder with config.json and safetensors weights; short form: "
                      "\"model\": \"path\".",
           .effect = Effect::kUsed});
  v.field("family", c.family,
          {.meaning = "Kind of model to build from the fields below.",
           .effect = Effect::kUsed,
           .only = {"gpt2", "llama"}});
  const auto is = [&](ModelFamily family) { return c.family == family; };
  v.when(is(ModelFamily::kGpt2), "family is gpt2", [&] { fields(v, c.gpt2); });
  v.when(is(ModelFamily::kLlama), "family is llama", [&] { fields(v, c.llama); });
  v.when(is(ModelFamily::kBert), "family is bert", [&] { fields(v, c.bert); });
  v.when(is(ModelFamily::kMoeGpt), "family is moe_gpt", [&] { fields(v, c.moe_gpt); });
  v.when(is(ModelFamily::kResNet), "family is resnet", [&] { fields(v, c.resnet); });
}

void fields(Visitor& v, DataSection& c) {
  v.field(
      "train", c.train,
      {.meaning =
           "Training data: files, folders (all files in them but those that begin with . or _), or "
           "patterns with * ? [ ] of text, JSON lines (.jsonl, .ndjson, .json), both also "
           "compressed "
           "with gzip or zstd, llm.c token shards, or the prefix of an indexed dataset.",
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
  v.field("tokenizer", c.tokenizer,
          {.meaning = "\"byte\" (256 tokens), or a tokenizer.json or the folder that holds it. "
                      "Where model.folder is "
                      "given, that folder is the default.",
           .effect = Effect::kUsed});
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
  v.field("eval_every", c.eval_every,
          {.meaning = "Steps between evaluations; 0 evaluates at the end only.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("eval_batches", c.eval_batches,
          {.meaning = "Batches per evaluation; 0 takes the whole validation set.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("save_every", c.save_every,
          {.meaning = "Steps between checkpoints; 0 saves at the end only.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field(
      "keep_checkpoints", c.keep_checkpoints,
      {.meaning = "Newest checkpoints to keep; 0 keeps all.", .effect = Effect::kUsed, .min = 0});
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
  v.field("log_every", c.log_every,
          {.meaning = "Steps between lines of metrics.",
           .effect = Effect::kAlwaysSo,
           .here = "the metrics have a line for every step; steps_per_print thins what is shown",
           .min = 1});
  v.field("resume", c.resume,
          {.meaning = "auto continues from the newest checkpoint if there is one, required fails "
                      "without one, never starts anew.",
           .effect = Effect::kUsed});
  v.field("final_dtype", c.final_dtype,
          {.meaning = "Number type of the weights in final/.",
           .effect = Effect::kUsed,
           .unset_meaning = "fp32, as they are trained; with "
                            "stage3_gather_16bit_weights_on_model_save at ZeRO stage 3 "
                            "that of fp16 or bf16"});
}

}  // namespace ds
