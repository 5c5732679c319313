// Hugging Face's config.json of models with norms behind branches or sums: encoders, OPT, OLMo.
#include <array>

#include "config/families/hf_config.h"
#include "config/sections/split/tensor.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("encoders see both sides, have norms of sums, and refuse what they are not", "[model]") {
  const auto read = [](const std::string& keys) {
    return parse_hf_config(R"({"hidden_size": 64, "num_attention_heads": 4, )" + keys + "}", "c");
  };
  const std::string bert = R"("architectures": ["BertForMaskedLM"])";
  const std::string roberta = R"("model_type": "roberta")";
  const TransformerSpec spec = transformer_spec(read(bert));
  CHECK(spec.attention_kind == AttentionKind::kBidirectional);
  CHECK(spec.names.attention_norm.empty());
  CHECK(spec.names.mlp_sum_norm == "output.LayerNorm");
  CHECK(spec.tables.segments == 2);
  CHECK(spec.tables.first_position == 0);
  CHECK(spec.norms.eps == 1e-12);
  CHECK(spec.head.transform->activation == "gelu");
  CHECK(transformer_spec(read(bert + R"(, "hidden_act": "relu")")).head.transform->activation ==
        "relu");
  CHECK_FALSE(is_causal(read(bert)));
  const ModelConfig other = read(roberta + R"(, "hidden_act": "relu", "pad_token_id": 4)");
  CHECK(transformer_spec(other).tables.first_position == 5);
  CHECK(transformer_spec(other).head.transform->activation == "gelu");
  CHECK(dimensions(other).positions == 512 - 5);
  CHECK_THAT(format_hf_config(other, DType::kF32),
             Catch::Contains("\"pad_token_id\": 4") || Catch::Contains("\"pad_token_id\":4"));
  // What a tokenizer pads with moves no positions.
  CHECK_THAT(format_hf_config(other, DType::kF32, {.pad = 7}),
             !Catch::Contains("\"pad_token_id\": 7") && !Catch::Contains("\"pad_token_id\":7"));
  CHECK_THROWS_WITH(read(roberta + R"(, "max_position_embeddings": 2)"),
                    Catch::Contains("max_position_embeddings: 2, of which the first 2"));
  for (const std::string& family : {bert, roberta}) {
    for (const auto& [keys, named] : std::initializer_list<std::pair<const char*, const char*>>{
             {R"("is_decoder": true)", "is_decoder"},
             {R"("add_cross_attention": true)", "add_cross_attention"},
             {R"("tie_word_embeddings": false)", "tie_word_embeddings"},
             {R"("position_embedding_type": "relative_key")", "position_embedding_type"},
             {R"("position_embedding_type": 3)", "position_embedding_type"},
             {R"("hidden_act": "mish")", "hidden_act"}}) {
      CHECK_THROWS_WITH(read(family + ", " + keys), Catch::Contains(named));
    }
    CHECK_NOTHROW(read(family + R"(, "position_embedding_type": "absolute")"));
  }
  for (const char* const named : {"7", "\"BertModel\"", "[7]", "{}"}) {
    CAPTURE(named);
    CHECK_THROWS_WITH(read(fmt::format(R"("model_type": "bert", "architectures": {})", named)),
                      Catch::Contains("\"architectures\" must be a list"));
  }
  CHECK_NOTHROW(read(R"("model_type": "bert", "architectures": [])"));
  CHECK_NOTHROW(read(R"("model_type": "bert", "architectures": null)"));
  CHECK_THROWS_WITH(read(R"("architectures": ["BertDecoder"])"),
                    Catch::Contains("architecture \"BertDecoder\"; known are"));
  CHECK_THROWS_WITH(
      read(R"("model_type": "bert", "architectures": ["BertForQuestionAnswering"])"),
      Catch::Contains("\"BertForQuestionAnswering\"; of \"bert\" this build has BertForMaskedLM;"));
}

TEST_CASE("classes without a head, and with others besides, are of their family", "[model]") {
  for (const auto& [name, family] : std::initializer_list<std::pair<const char*, const char*>>{
           {"BertModel", "bert"},
           {"BertForPreTraining", "bert"},
           {"RobertaModel", "roberta"},
           {"XLMRobertaModel", "xlm-roberta"},
           {"XLMRobertaForMaskedLM", "xlm-roberta"},
           {"ModernBertModel", "modernbert"},
           {"DistilBertModel", "distilbert"},
           {"LlamaModel", "llama"},
           {"MistralModel", "mistral"},
           {"Qwen2Model", "qwen2"},
           {"Qwen3Model", "qwen3"},
           {"GPT2Model", "gpt2"},
           {"OPTModel", "opt"}}) {
    CAPTURE(name);
    const std::string json = fmt::format(R"({{"architectures": ["{}"]}})", name);
    CHECK(family_name(parse_hf_config(json, "c")) == family);
  }
  // What a profile calls the body of an OPT is no class that a folder names.
  CHECK_THROWS_AS(parse_hf_config(R"({"architectures": ["OPTDecoder"]})", "c"), Unsupported);
  CHECK_THROWS_AS(parse_hf_config(R"({"architectures": [""]})", "c"), Unsupported);
  const ModelConfig other = parse_hf_config(R"({"model_type": "xlm-roberta"})", "c");
  CHECK(dimensions(other).vocabulary == 30522);
  CHECK(dimensions(other).positions == 510);
  CHECK(transformer_spec(other).names.body == "roberta");
}

TEST_CASE("a DistilBERT is a BERT in words of its own", "[model]") {
  const auto read = [](const std::string& keys) {
    return parse_hf_config(
        R"({"model_type": "distilbert", "hidden_size": 64, "n_heads": 4, "qa_dropout": 0.1)" +
            keys + "}",
        "c");
  };
  const ModelConfig config = read(R"(, "sinusoidal_pos_embds": false, "tie_weights_": true)");
  CHECK(dimensions(config).width == 64);
  CHECK(dimensions(config).layers == 6);
  CHECK(dimensions(config).positions == 512);
  CHECK_FALSE(is_causal(config));
  CHECK(ties_embeddings(config));
  const TransformerSpec spec = transformer_spec(config);
  CHECK(block_list(config) == "distilbert.transformer.layer");
  CHECK(spec.tables.segments == 0);
  CHECK(spec.attention_out_dropout == 0);
  CHECK(spec.mlp_dropout == 0.1);
  CHECK(spec.head.transform->linear == "vocab_transform");
  const std::string written = format_hf_config(config, DType::kF32);
  CHECK_THAT(written, Catch::Contains("DistilBertForMaskedLM"));
  CHECK(format_hf_config(parse_hf_config(written, "c"), DType::kF32) == written);
  for (const auto& [keys, named] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"(, "sinusoidal_pos_embds": true)", "sinusoidal_pos_embds"},
           {R"(, "tie_word_embeddings": false)", "tie_word_embeddings"},
           {R"(, "activation": "mish")", "activation"},
           {R"(, "n_heads": 5)", "n_heads"},
           {R"(, "architectures": ["DistilBertForQuestionAnswering"])", "QuestionAnswering"}}) {
    CHECK_THROWS_WITH(read(keys), Catch::Contains(named));
  }
  const ModelConfig texts = read(R"(, "architectures": ["DistilBertForSequenceClassification"])");
  CHECK(transformer_spec(texts).head.dropout_behind == 0.2);
  CHECK(classifier_modules(texts) == std::vector<std::string>{"classifier", "pre_classifier"});
}

TEST_CASE("a model that no family computes is refused by what it has", "[model]") {
  const auto read = [](const std::string& type, const std::string& name) {
    return parse_hf_config(
        fmt::format(R"({{"model_type": "{}", "architectures": ["{}"]}})", type, name), "c");
  };
  for (const char* const name : {"MPNetModel", "MPNetForMaskedLM"}) {
    CHECK_THROWS_WITH(read("mpnet", name),
                      Catch::Contains(fmt::format("\"{}\"; it has a bias of attention by relative "
                                                  "positions, which this build does not compute;",
                                                  name)));
  }
  CHECK_THROWS_AS(read("mpnet", "MPNetModel"), Unsupported);
  CHECK_THROWS_WITH(read("gpt_oss", "GptOssForCausalLM"), Catch::Contains("it has experts"));
  CHECK_THROWS_WITH(read("unheard", "UnheardModel"), !Catch::Contains("it has"));
}

TEST_CASE("an OPT has its norms before branches or behind sums", "[model]") {
  const auto read = [](const std::string& keys) {
    return parse_hf_config(
        R"({"model_type": "opt", "hidden_size": 64, "num_attention_heads": 4)" + keys + "}", "c");
  };
  const TransformerSpec before = transformer_spec(read(""));
  CHECK(before.names.mlp_norm == "final_layer_norm");
  CHECK(before.names.last_norm == "final_layer_norm");
  CHECK(before.names.mlp_sum_norm.empty());
  CHECK(before.tables.first_position == 2);
  CHECK(dimensions(read("")).positions == 2048);
  const TransformerSpec behind = transformer_spec(read(R"(, "do_layer_norm_before": false)"));
  CHECK(behind.names.mlp_norm.empty());
  CHECK(behind.names.last_norm.empty());
  CHECK(behind.names.mlp_sum_norm == "final_layer_norm");
  CHECK_FALSE(transformer_spec(read(R"(, "enable_bias": false)")).mlp.out.has_bias);
  for (const auto& [keys, named] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"(, "layerdrop": 0.1)", "layerdrop"},
           {R"(, "_remove_final_layer_norm": true)", "_remove_final_layer_norm"},
           {R"(, "layer_norm_elementwise_affine": false)", "layer_norm_elementwise_affine"}}) {
    CHECK_THROWS_WITH(read(keys), Catch::Contains(named));
  }
  const TransformerSpec same =
      transformer_spec(read(R"(, "word_embed_proj_dim": 64, "layerdrop": 0.0)"));
  CHECK(same.names.projection_in.empty());
  CHECK(same.names.projection_out.empty());
  // As OPT-350M has it.
  const ModelConfig narrow = read(R"(, "word_embed_proj_dim": 32, "do_layer_norm_before": false)");
  CHECK(transformer_spec(narrow).tables.width == 32);
  CHECK(transformer_spec(narrow).names.projection_in == "project_in");
  CHECK(transformer_spec(narrow).names.projection_out == "project_out");
  CHECK(dimensions(narrow).width == 64);
  CHECK_THROWS_WITH(read(R"(, "word_embed_proj_dim": 0)"), Catch::Contains("word_embed_proj_dim"));
}

TEST_CASE("an OLMo has norms behind branches, and of all heads together", "[model]") {
  const auto read = [](const std::string& type, const std::string& keys) {
    return parse_hf_config(R"({"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4,
                              "model_type": ")" +
                               type + "\"" + keys + "}",
                           "c");
  };
  for (const std::string type : {"olmo2", "olmo3"}) {
    const TransformerSpec spec = transformer_spec(read(type, ""));
    CHECK(spec.names.attention_norm.empty());
    CHECK(spec.names.mlp_norm.empty());
    CHECK(spec.names.mlp_out_norm == "post_feedforward_layernorm");
    CHECK(spec.head_norms->extent == HeadNorms::Extent::kAllHeads);
    // Each rank makes the whole gradient of such a norm, so that nobody sums it.
    CHECK(tensor_conflict(read(type, ""), {.ranks = 2, .offloads_state = true}).empty());
  }
  const std::string layered = R"(, "rope_parameters": {"full_attention": {"rope_type": "yarn",
      "factor": 8, "rope_theta": 5e5}, "sliding_attention": {"rope_theta": )";
  const TransformerSpec olmo3 = transformer_spec(read("olmo3", layered + "5e5}}"));
  CHECK(olmo3.window->full_every == 4);
  CHECK(std::holds_alternative<YarnScaling>(olmo3.rotary->scaling));
  CHECK(std::holds_alternative<std::monostate>(olmo3.window_rotary->scaling));
  CHECK(olmo3.window_rotary->theta == 5e5);
  const TransformerSpec old = transformer_spec(read(
      "olmo3", R"(, "rope_scaling": {"rope_type": "linear", "factor": 2}, "rope_theta": 500000)"));
  CHECK(std::holds_alternative<LinearScaling>(old.rotary->scaling));
  CHECK(old.window_rotary->theta == 500000);
  CHECK_THROWS_WITH(read("olmo3", layered + "1e4}}"), Catch::Contains("another \"rope_theta\""));
  const TransformerSpec whole =
      transformer_spec(read("olmo3", R"(, "layer_types": ["full_attention", "full_attention",
                                  "full_attention", "full_attention"])"));
  CHECK_FALSE(whole.window->is_of(0));
  CHECK_FALSE(whole.window->is_of(2));
  CHECK_NOTHROW(read("olmo3", R"(, "layer_types": ["sliding_attention", "sliding_attention",
                              "sliding_attention", "full_attention"])"));
  CHECK_THROWS_WITH(read("olmo3", R"(, "sliding_window": null)"), Catch::Contains("null"));
}

TEST_CASE("a ModernBERT has windows to both sides, and the first layer of several sees all",
          "[model]") {
  const auto read = [](const std::string& keys) {
    return std::get<ModernBertConfig>(parse_hf_config(
        R"({"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4,
            "model_type": "modernbert")" +
            keys + "}",
        "c"));
  };
  const TransformerSpec spec = transformer_spec(read(""));
  CHECK(spec.norms.kind == NormKind::kLayerUnbiased);
  CHECK(spec.window->keys == 65);
  CHECK(spec.window->full_every == 3);
  CHECK(spec.rotary->theta == 160000);
  CHECK(spec.window_rotary->theta == 10000);
  CHECK(spec.head.bias == "decoder");
  CHECK_FALSE(spec.head.transform->has_bias);
  CHECK(transformer_spec(read(R"(, "norm_bias": true)")).norms.kind == NormKind::kLayer);
  CHECK(transformer_spec(read(R"(, "decoder_bias": false)")).head.bias.empty());
  CHECK(read(R"(, "global_attn_every_n_layers": 2)").global_attn_every_n_layers == 2);
  CHECK(read(R"(, "local_rope_theta": null)").local_rope_theta == 160000);
  const std::string slides = R"("sliding_attention")", full = R"("full_attention")";
  const auto typed = [&](const std::string& a, const std::string& b, const std::string& c,
                         const std::string& d) {
    return R"(, "layer_types": [)" + a + ", " + b + ", " + c + ", " + d + "]";
  };
  CHECK(read(typed(full, slides, full, slides)).global_attn_every_n_layers == 2);
  CHECK(read(typed(full, full, full, full)).global_attn_every_n_layers == 1);
  CHECK(read(typed(full, slides, slides, slides)).global_attn_every_n_layers == 4);
  for (const auto& types : {std::array{true, false, true, false}, {false, true, false, false}}) {
    const auto type = [&](size_t layer) { return types.at(layer) ? slides : full; };
    const ModernBertConfig mixed = read(typed(type(0), type(1), type(2), type(3)));
    CHECK(mixed.global_attn_every_n_layers == 3);
    for (size_t layer = 0; layer < types.size(); ++layer) {
      CHECK(transformer_spec(mixed).window->is_of(static_cast<int64_t>(layer)) == types.at(layer));
    }
  }
  const ModernBertConfig newer = read(R"(, "rope_parameters": {
      "full_attention": {"rope_theta": 7}, "sliding_attention": {"rope_theta": 8}})");
  CHECK(newer.global_rope_theta == 7);
  CHECK(newer.local_rope_theta == 8);
  for (const auto& [keys, named] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"(, "mlp_dropout": 0.1)", "mlp_dropout"},
           {R"(, "rope_scaling": {"type": "linear", "factor": 2})", "rope_scaling"},
           {R"(, "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2}})",
            "scaled rotary positions"},
           {R"(, "tie_word_embeddings": false)", "tie_word_embeddings"}}) {
    CHECK_THROWS_WITH(read(keys), Catch::Contains(named));
  }
}

}  // namespace
}  // namespace ds
