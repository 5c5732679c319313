#include "config/families/spec/idle_keys.h"

#include <algorithm>
#include <array>

namespace ds {
namespace {

// Sorted, both.
constexpr std::array<std::string_view, 76> kAlwaysIdle{"_attn_implementation",
                                                       "_attn_implementation_autoset",
                                                       "_commit_hash",
                                                       "_name_or_path",
                                                       "_sliding_window_pattern",
                                                       "bad_words_ids",
                                                       "begin_suppress_tokens",
                                                       "bos_token_id",
                                                       "chunk_size_feed_forward",
                                                       "classifier_dropout",
                                                       "classifier_pooling",
                                                       "cls_token_id",
                                                       "decoder_start_token_id",
                                                       "deterministic_flash_attn",
                                                       "diversity_penalty",
                                                       "do_sample",
                                                       "dtype",
                                                       "early_stopping",
                                                       "encoder_no_repeat_ngram_size",
                                                       "eos_token_id",
                                                       "exponential_decay_length_penalty",
                                                       "finetuning_task",
                                                       "forced_bos_token_id",
                                                       "forced_eos_token_id",
                                                       "gradient_checkpointing",
                                                       "id2label",
                                                       "initializer_cutoff_factor",
                                                       "label2id",
                                                       "length_penalty",
                                                       "mask_token_id",
                                                       "max_length",
                                                       "min_length",
                                                       "n_ctx",
                                                       "no_repeat_ngram_size",
                                                       "num_beam_groups",
                                                       "num_beams",
                                                       "num_labels",
                                                       "num_return_sequences",
                                                       "output_attentions",
                                                       "output_hidden_states",
                                                       "output_scores",
                                                       "pad_token_id",
                                                       "predict_special_tokens",
                                                       "prefix",
                                                       "pretraining_tp",
                                                       "problem_type",
                                                       "qa_dropout",
                                                       "reference_compile",
                                                       "remove_invalid_values",
                                                       "repad_logits_with_grad",
                                                       "repetition_penalty",
                                                       "return_dict",
                                                       "return_dict_in_generate",
                                                       "sep_token_id",
                                                       "sparse_pred_ignore_index",
                                                       "sparse_prediction",
                                                       "summary_activation",
                                                       "summary_first_dropout",
                                                       "summary_proj_to_labels",
                                                       "summary_type",
                                                       "summary_use_proj",
                                                       "suppress_tokens",
                                                       "task_specific_params",
                                                       "temperature",
                                                       "tf_legacy_loss",
                                                       "tie_weights_",
                                                       "tokenizer_class",
                                                       "top_k",
                                                       "top_p",
                                                       "torch_dtype",
                                                       "torchscript",
                                                       "transformers_version",
                                                       "typical_p",
                                                       "unk_token_id",
                                                       "use_bfloat16",
                                                       "use_cache"};
constexpr std::array<std::string_view, 8> kIdleWhereOff{
    "add_cross_attention",     "embd_pdrop",         "is_decoder",
    "is_encoder_decoder",      "layerdrop",          "pruned_heads",
    "reorder_and_upcast_attn", "tie_encoder_decoder"};

bool is_off(const rapidjson::Value& value) {
  if (value.IsBool()) return !value.GetBool();
  if (value.IsNumber()) return value.GetDouble() == 0;
  if (value.IsObject()) return value.ObjectEmpty();
  return value.IsArray() && value.Empty();
}

}  // namespace

bool is_idle_key(std::string_view key, const rapidjson::Value& value) {
  if (std::ranges::binary_search(kAlwaysIdle, key)) return true;
  return std::ranges::binary_search(kIdleWhereOff, key) && is_off(value);
}

}  // namespace ds
