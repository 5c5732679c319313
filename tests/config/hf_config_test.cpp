// config.json in and out: defaults, synonyms of versions, and refusals by name.
#include "config/families/hf_config.h"

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;

namespace {

std::string refusal(const std::string& json) {
  try {
    parse_hf_config(json, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string gpt2_with(const std::string& more) {
  return R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_head": 4)" + more + "}";
}

std::string llama_with(const std::string& more) {
  return R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4)" + more + "}";
}

}  // namespace

TEST_CASE("a GPT-2 config is read with Hugging Face's defaults", "[model]") {
  const auto c = std::get<Gpt2Config>(parse_hf_config(
      gpt2_with(R"(, "n_layer": 2, "vocab_size": 101.0, "n_inner": null, "task": [1])"), "c"));
  CHECK(c.n_embd == 64);
  CHECK(c.vocab_size == 101);
  CHECK(c.n_positions == 1024);
  CHECK(c.attn_pdrop == 0.1);
  CHECK(c.tie_word_embeddings);
  CHECK(dimensions(c).inner == 256);
}

TEST_CASE("a Llama config is read, with derived heads", "[model]") {
  const auto c = std::get<LlamaConfig>(parse_hf_config(
      llama_with(R"(, "num_key_value_heads": 2, "rope_theta": 5e5, "rope_scaling": null)"), "c"));
  CHECK(c.rope_theta == 5e5);
  CHECK(c.rms_norm_eps == 1e-6);
  CHECK(dimensions(c).kv_heads == 2);
  CHECK(dimensions(c).head_dim == 16);
  CHECK_FALSE(c.tie_word_embeddings);
}

TEST_CASE("rotary positions of layers of two kinds are written as transformers reads them",
          "[model]") {
  const auto with = [](const std::string& full) {
    return R"({"model_type": "olmo3", "original_max_position_embeddings": 32, "rope_parameters": )"
           R"({"sliding_attention": {"rope_type": "default", "rope_theta": 1000.0}, )"
           R"("full_attention": {"rope_theta": 1000.0, )" +
           full + "}}}";
  };
  const std::string scaled = with(R"("rope_type": "linear", "factor": 2.0)");
  for (const std::string& json : {with(R"("rope_type": "default")"), scaled}) {
    const ModelConfig model = parse_hf_config(json, "c");
    const std::string text = format_hf_config(model, DType::kF32);
    CHECK_THAT(text, Catch::Contains("\"rope_parameters\"") &&
                         Catch::Contains("\"sliding_attention\"") &&
                         !Catch::Contains("\"rope_scaling\""));
    CHECK(format_hf_config(parse_hf_config(text, "c"), DType::kF32) == text);
    CHECK(std::get<Olmo3Config>(parse_hf_config(text, "c")).rope_theta == 1000);
  }
  const auto read = std::get<Olmo3Config>(
      parse_hf_config(format_hf_config(parse_hf_config(scaled, "c"), DType::kF32), "c"));
  REQUIRE(read.rope_scaling);
  CHECK(read.rope_scaling->factor == 2);
  // What stands beside the positions of several kinds of layers is of none of them.
  const auto yarn =
      std::get<Olmo3Config>(parse_hf_config(with(R"("rope_type": "yarn", "factor": 2.0)"), "c"));
  CHECK_FALSE(yarn.rope_scaling->original_max_position_embeddings);
}

TEST_CASE("keys that nobody knows are told, and those that change nothing are not", "[model]") {
  const auto unread = [](const std::string& more) { return unread_hf_keys(llama_with(more), "c"); };
  using Keys = std::vector<std::string>;
  CHECK(unread(R"(, "use_cache": true, "transformers_version": "5", "rope_theta": 5e5)").empty());
  CHECK(unread(R"(, "attention_sinks": 4, "torch_dtype": "float32", "blocks": null)") ==
        Keys{"attention_sinks"});
  CHECK(unread(R"(, "add_cross_attention": false, "pruned_heads": {}, "layerdrop": 0.0)").empty());
  CHECK(unread(R"(, "add_cross_attention": true, "pruned_heads": {"1": [0]}, "layerdrop": 0.1)") ==
        Keys{"add_cross_attention", "pruned_heads", "layerdrop"});
  CHECK_THROWS_AS(unread(R"(, "vision_config": {})"), Unsupported);
}

TEST_CASE("a window of keys is that of the layers that have one", "[model]") {
  // Keys, and the first layer; 0: there is none.
  const auto window = [](const std::string& json) {
    const auto found = transformer_spec(parse_hf_config(json, "c")).window;
    return found ? std::pair(found->keys, found->first_layer) : std::pair<int64_t, int64_t>(0, 0);
  };
  using Window = std::pair<int64_t, int64_t>;
  CHECK(window(R"({"model_type": "mistral"})") == Window(4096, 0));
  CHECK(window(R"({"model_type": "mistral", "sliding_window": null})") == Window(0, 0));
  CHECK(window(R"({"model_type": "mistral", "sliding_window": 64})") == Window(64, 0));
  const auto two = [&](const std::string& types) {
    return window(R"({"model_type": "mistral", "num_hidden_layers": 2, "layer_types": [)" + types +
                  "]}");
  };
  CHECK(two(R"("sliding_attention", "sliding_attention")") == Window(4096, 0));
  CHECK(two(R"("full_attention", "full_attention")") == Window(0, 0));
  CHECK_THROWS_WITH(two(R"("full_attention", "sliding_attention")"),
                    Catch::Contains("a window of some layers"));
  CHECK(window(R"({"model_type": "qwen2", "sliding_window": 64})") == Window(0, 0));
  const auto qwen2 = [&](const std::string& more) {
    return window(R"({"model_type": "qwen2", "num_hidden_layers": 3, "sliding_window": 64)" + more +
                  "}");
  };
  CHECK(qwen2(R"(, "use_sliding_window": true)") == Window(64, 28));
  CHECK(qwen2(R"(, "use_sliding_window": true, "max_window_layers": 2)") == Window(64, 2));
  const std::string full = R"("full_attention")", slides = R"("sliding_attention")";
  const auto typed = [&](const std::string& a, const std::string& b, const std::string& c) {
    return qwen2(R"(, "use_sliding_window": true, "max_window_layers": 2, "layer_types": [)" + a +
                 ", " + b + ", " + c + "]");
  };
  CHECK(typed(full, full, full) == Window(64, 3));
  CHECK(typed(full, slides, slides) == Window(64, 1));
  CHECK(typed(slides, slides, slides) == Window(64, 0));
  CHECK_THROWS_WITH(qwen2(R"(, "use_sliding_window": true, "layer_types": ["full_attention"])"),
                    Catch::Contains("1 \"layer_types\" for 3 layers"));
  CHECK_THROWS_WITH(qwen2(R"(, "layer_types": ["full_attention", "full_attention", "x"])"),
                    Catch::Contains("\"x\" among"));
  const std::string text = format_hf_config(MistralConfig{.sliding_window = {}}, DType::kF32);
  CHECK_THAT(text, Catch::Contains("\"sliding_window\": null"));
  CHECK(window(text) == Window(0, 0));
  CHECK(dimensions(parse_hf_config(text, "c")).positions == 131072);
  const auto key_heads = [](const std::string& json) {
    return dimensions(parse_hf_config(json, "c")).kv_heads;
  };
  CHECK(key_heads(R"({"model_type": "mistral"})") == 8);
  CHECK(key_heads(R"({"model_type": "mistral", "num_key_value_heads": null})") == 32);
}

TEST_CASE("a Qwen3 has heads of their own width, norms of them, and no biases unless told so",
          "[model]") {
  const auto read = [](const std::string& more) {
    return std::get<Qwen3Config>(parse_hf_config(
        R"({"model_type": "qwen3", "hidden_size": 64, "num_attention_heads": 4,
            "num_key_value_heads": 2, "num_hidden_layers": 2)" +
            more + "}",
        "c"));
  };
  CHECK(dimensions(read("")).head_dim == 128);
  CHECK(dimensions(read(R"(, "head_dim": 24)")).head_dim == 24);
  CHECK(dimensions(read(R"(, "head_dim": null)")).head_dim == 16);
  const TransformerSpec spec = transformer_spec(read(""));
  REQUIRE(spec.head_norms);
  CHECK(spec.head_norms->queries == "q_norm");
  CHECK_FALSE(spec.attention.in.front().has_bias);
  const TransformerSpec biased = transformer_spec(read(R"(, "attention_bias": true)"));
  CHECK(biased.attention.in.front().has_bias);
  CHECK(biased.attention.out.has_bias);
  CHECK_FALSE(spec.window);
  CHECK(read(R"(, "use_sliding_window": true, "sliding_window": 8,
               "layer_types": ["full_attention", "sliding_attention"])")
            .max_window_layers == 1);
  CHECK_THROWS_WITH(read(R"(, "layer_types": ["full_attention", "sliding_attention"])"),
                    Catch::Contains("sliding_attention"));
}

TEST_CASE("a Gemma multiplies embeddings, norms by 1 + w, and reads gelu as its tanh form",
          "[model]") {
  using Catch::Contains;
  const auto json = [](const std::string& more) {
    return R"({"model_type": "gemma", "hidden_size": 64)" + more + "}";
  };
  const auto c = std::get<GemmaConfig>(parse_hf_config(json(R"(, "hidden_act": "gelu")"), "c"));
  CHECK(c.hidden_act == "gelu_pytorch_tanh");
  CHECK(c.tie_word_embeddings);
  CHECK(dimensions(c).head_dim == 256);
  const TransformerSpec spec = transformer_spec(c);
  CHECK(spec.norms.kind == NormKind::kRmsOnePlus);
  CHECK(spec.activation == "gelu_pytorch_tanh");
  CHECK(spec.factors.embedding == 8);
  CHECK(spec.factors.embedding_precision == FactorPrecision::kOfWeights);
  CHECK(spec.names.mlp_out_norm.empty());
  CHECK(refusal(json(R"(, "hidden_activation": "gelu_pytorch_tanh", "hidden_act": "gelu")")) ==
        "accepted");
  CHECK(refusal(json(R"(, "hidden_activation": null)")) == "accepted");
  CHECK_THAT(refusal(json(R"(, "hidden_activation": "silu")")), Contains("\"hidden_activation\""));
  CHECK_THAT(refusal(json(R"(, "hidden_act": "sigmoid")")), Contains("hidden_act: \"sigmoid\""));
  CHECK_THAT(refusal(json(R"(, "use_bidirectional_attention": true)")),
             Contains("use_bidirectional_attention"));
}

TEST_CASE("a Gemma 2 caps scores and logits, and every other layer has a window", "[model]") {
  using Catch::Contains;
  const auto json = [](const std::string& more) {
    return R"({"model_type": "gemma2", "hidden_size": 64, "num_hidden_layers": 3)" + more + "}";
  };
  const auto spec_of = [&](const std::string& more) {
    return transformer_spec(parse_hf_config(json(more), "c"));
  };
  const TransformerSpec spec = spec_of("");
  CHECK(spec.scores.scale == 0);  // that of heads of 256
  CHECK(spec.scores.softcap == 50);
  CHECK(spec.head.logits_softcap == 30);
  REQUIRE(spec.window);
  CHECK(spec.window->keys == 4096);
  CHECK(spec.window->full_every == 2);
  CHECK(spec.names.attention_out_norm == "post_attention_layernorm");
  CHECK(spec.names.mlp_norm == "pre_feedforward_layernorm");
  const TransformerSpec plain =
      spec_of(R"(, "attn_logit_softcapping": null, "final_logit_softcapping": null,
                   "hidden_activation": "gelu", "query_pre_attn_scalar": 64)");
  CHECK(plain.scores.scale == 0.125);
  CHECK(plain.scores.softcap == 0);
  CHECK(plain.head.logits_softcap == 0);
  CHECK(plain.activation == "gelu");
  const auto typed = [&](const std::string& types) {
    return refusal(json(R"(, "layer_types": [)" + types + "]"));
  };
  CHECK(typed(R"("sliding_attention", "full_attention", "sliding_attention")") == "accepted");
  CHECK(typed(R"("full_attention", "full_attention", "full_attention")") == "accepted");
  const SlidingWindow mixed =
      *spec_of(R"(, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"])")
           .window;
  CHECK(mixed.is_of(1));
  CHECK_FALSE(mixed.is_of(2));
  CHECK_THAT(typed(R"("sliding_attention", 5, "sliding_attention")"),
             Contains("\"\" among \"layer_types\""));
  CHECK_THAT(typed(R"("sliding_attention")"), Contains("1 \"layer_types\" for 3 layers"));
  CHECK_THAT(refusal(json(R"(, "layer_types": 3)")), Contains("expected list of strings"));
  CHECK_THAT(refusal(json(R"(, "sliding_window": null)")), Contains("\"sliding_window\""));
  CHECK_THAT(refusal(json(R"(, "final_logit_softcapping": 0)")),
             Contains("final_logit_softcapping"));
  CHECK_THAT(refusal(json(R"(, "use_bidirectional_attention": true)")),
             Contains("use_bidirectional_attention"));
  Gemma2Config uncapped;
  uncapped.final_logit_softcapping.reset();
  const std::string text = format_hf_config(uncapped, DType::kF32);
  CHECK_THAT(text, Contains("\"final_logit_softcapping\": null"));
  CHECK_FALSE(std::get<Gemma2Config>(parse_hf_config(text, "c")).final_logit_softcapping);
}

TEST_CASE("a Gemma 3 has its pattern of windows, and frequencies of theirs", "[model]") {
  using Catch::Contains;
  const auto json = [](const std::string& more) {
    return R"({"model_type": "gemma3_text", "hidden_size": 64, "num_hidden_layers": 3)" + more +
           "}";
  };
  const auto read = [&](const std::string& more) {
    return std::get<Gemma3Config>(parse_hf_config(json(more), "c"));
  };
  const Gemma3Config c = read("");
  CHECK(c.sliding_window_pattern == 6);
  CHECK(c.rope_theta == 1e6);
  CHECK(c.rope_local_base_freq == 1e4);
  const TransformerSpec spec = transformer_spec(c);
  REQUIRE(spec.window_rotary);
  CHECK(spec.window_rotary->theta == 1e4);
  CHECK(spec.rotary->theta == 1e6);
  CHECK(spec.head_norms->keys == "k_norm");
  CHECK(spec.head.logits_softcap == 0);
  CHECK(read(R"(, "sliding_window_pattern": 2)").sliding_window_pattern == 2);
  const std::string slides = R"("sliding_attention")", full = R"("full_attention")";
  const auto typed = [&](const std::string& a, const std::string& b, const std::string& c3) {
    return R"(, "layer_types": [)" + a + ", " + b + ", " + c3 + "]";
  };
  CHECK(read(typed(slides, full, slides)).sliding_window_pattern == 2);
  CHECK(read(typed(full, full, full)).sliding_window_pattern == 1);
  CHECK(read(typed(slides, slides, slides)).sliding_window_pattern == 6);
  CHECK(read(typed(slides, slides, slides) + R"(, "sliding_window_pattern": 2)")
            .sliding_window_pattern == 4);
  const Gemma3Config mixed = read(typed(slides, full, full));
  CHECK(mixed.sliding_window_pattern == 6);
  CHECK(full_layers(mixed.layer_types) == std::vector{false, true, true});
  CHECK(std::get<Gemma3Config>(parse_hf_config(format_hf_config(mixed, DType::kF32), "c"))
            .layer_types == mixed.layer_types);
  CHECK_FALSE(read(typed(slides, slides, full)).layer_types);
  const Gemma3Config old = read(R"(, "rope_theta": 5e5, "rope_local_base_freq": 7,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0})");
  CHECK(old.rope_theta == 5e5);
  CHECK(old.rope_local_base_freq == 7);
  CHECK(old.rope_scaling->factor == 8);
  const Gemma3Config newer = read(R"(, "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
      "sliding_attention": {"rope_type": "default", "rope_theta": 7}})");
  CHECK(newer.rope_theta == 5e5);
  CHECK(newer.rope_local_base_freq == 7);
  CHECK(newer.rope_scaling == old.rope_scaling);
  CHECK_THAT(refusal(json(R"(, "rope_parameters": {"rope_theta": 3})")),
             Contains("\"rope_theta\" in \"rope_parameters\""));
  CHECK_THAT(refusal(json(R"(, "rope_local_base_freq": 8, "rope_parameters": {
      "sliding_attention": {"rope_theta": 7}})")),
             Contains("\"rope_local_base_freq\" is 8"));
  CHECK_THAT(refusal(json(R"(, "rope_parameters": {
      "sliding_attention": {"rope_type": "linear", "factor": 2}})")),
             Contains("a scaling of \"sliding_attention\""));
  CHECK_THAT(refusal(json(R"(, "rope_parameters": {}, "rope_scaling": {"factor": 2})")),
             Contains("\"rope_scaling\" beside"));
  CHECK_THAT(refusal(json(R"(, "attn_logit_softcapping": 50)")),
             Contains("attn_logit_softcapping"));
}

TEST_CASE("what is written of a Gemma is of the types that transformers takes", "[model]") {
  const std::string text = format_hf_config(ModelConfig(Gemma2Config{}), DType::kBF16, {});
  CHECK_THAT(text, Catch::Contains("\"query_pre_attn_scalar\": 256,") ||
                       Catch::Contains("\"query_pre_attn_scalar\":256,"));
  CHECK_THAT(text, !Catch::Contains("\"head_dim\": null") && !Catch::Contains("\"head_dim\":null"));
  for (const std::string type : {"gemma2", "gemma3_text"}) {
    CAPTURE(type);
    const std::string start = R"({"model_type": ")" + type + R"(", "hidden_size": 36)";
    CHECK_THROWS_WITH(
        parse_hf_config(start + R"(, "num_attention_heads": 8, "num_key_value_heads": 4})", "c"),
        Catch::Contains("num_attention_heads"));
    CHECK_NOTHROW(
        parse_hf_config(start + R"(, "num_attention_heads": 4, "num_key_value_heads": 4})", "c"));
  }
}

TEST_CASE("a model of several parts is refused by their name, whatever it calls itself",
          "[model]") {
  for (const std::string part : {"text_config", "vision_config"}) {
    CHECK_THROWS_WITH(parse_hf_config(R"({"architectures": ["Gemma3ForCausalLM"],
                                          "model_type": "gemma3", ")" +
                                          part + R"(": {"hidden_size": 64}})",
                                      "c"),
                      Catch::Contains(part));
  }
}

TEST_CASE("heads of a Phi-3, a StableLM and a GPT-NeoX turn in part", "[model]") {
  const auto share = [](const std::string& keys) {
    return transformer_spec(
               parse_hf_config(R"({"hidden_size": 64, "num_attention_heads": 4, )" + keys + "}",
                               "c"))
        .rotary->share;
  };
  const std::string phi3 = R"("model_type": "phi3", "num_key_value_heads": 4)";
  CHECK(share(phi3) == 1);
  CHECK(share(phi3 + R"(, "partial_rotary_factor": 0.75)") == 0.75);
  CHECK(share(phi3 + R"(, "rope_parameters": {"partial_rotary_factor": 0.5})") == 0.5);
  const auto positions = [&](const std::string& keys) {
    return dimensions(parse_hf_config(R"({"hidden_size": 64, "num_attention_heads": 4, )" + phi3 +
                                          R"(, "max_position_embeddings": 64, "rope_scaling": {
        "type": "longrope", "short_factor": [1, 1, 1, 1, 1, 1, 1, 1],
        "long_factor": [2, 2, 2, 2, )" + keys +
                                          "}",
                                      "c"))
        .positions;
  };
  CHECK(positions(R"(2, 2, 2, 2]}, "original_max_position_embeddings": 16)") == 16);
  CHECK(positions("2, 2, 2, 2]}") == 64);  // there were 4096 before
  CHECK_THROWS_WITH(positions(R"(2, 2, 2, 2], "original_max_position_embeddings": 16})"),
                    Catch::Contains("original_max_position_embeddings: 16, but the model's"));
  CHECK_THROWS_WITH(positions("2, 2, 2]}"),
                    Catch::Contains("rope_scaling.long_factor: 7 factors of 8 pairs"));
  CHECK_THROWS_WITH(positions("2, 2, 2, -2]}"), Catch::Contains("not greater than 0"));
  CHECK_THROWS_WITH(positions(R"(2, 2, 2, "2"]})"), Catch::Contains("something else than numbers"));
  CHECK(share(R"("model_type": "stablelm", "num_key_value_heads": 4)") == 0.25);
  CHECK(share(R"("model_type": "gpt_neox")") == 0.25);
  CHECK(share(R"("model_type": "gpt_neox", "rotary_pct": 1.0)") == 1);
  CHECK_THROWS_WITH(share(phi3 + R"(, "partial_rotary_factor": 0.75,
                                   "rope_parameters": {"partial_rotary_factor": 0.5})"),
                    Catch::Contains("\"partial_rotary_factor\" is 0.75, but that of "
                                    "\"rope_parameters\" is 0.5"));
  CHECK_THROWS_WITH(share(phi3 + R"(, "partial_rotary_factor": 0.2)"),
                    Catch::Contains("0.2 of a head of 16 are 3 elements, which turn in pairs"));
  CHECK_THROWS_WITH(share(phi3 + R"(, "rope_scaling": {"type": "linear", "factor": 2})"),
                    Catch::Contains("rope_scaling.rope_type: \"linear\", expected longrope"));
  CHECK_THROWS_WITH(share(phi3 + R"(, "rope_scaling": {"type": "su"})"),
                    Catch::Contains("of type \"longrope\" has no \"short_factor\""));
  for (const char* const bad : {"-1", "0", "1e300"}) {
    CHECK_THROWS_WITH(share(phi3 + R"(, "rope_scaling": {"type": "longrope", "short_factor": [1],
                                     "long_factor": [1]}, "partial_rotary_factor": )" +
                            bad),
                      Catch::Contains("partial_rotary_factor"));
  }
}

TEST_CASE("some layers of a SmolLM3 have no rotary positions", "[model]") {
  const auto unrotated = [](const std::string& keys) {
    return transformer_spec(
               parse_hf_config(R"({"model_type": "smollm3", "num_hidden_layers": 5)" + keys + "}",
                               "c"))
        .unrotated;
  };
  const auto every = [&](const std::string& keys) {
    const UnrotatedLayers layers = unrotated(keys);
    CHECK(layers.layers.empty());
    return layers.every;
  };
  CHECK(every("") == 4);
  CHECK(every(R"(, "no_rope_layer_interval": 2)") == 2);
  CHECK(every(R"(, "no_rope_layers": [1, 1, 0, 1, 1])") == 3);
  CHECK(every(R"(, "no_rope_layers": [1, 1, 1, 1, 1, 0])") == 6);  // a layer more than there are
  CHECK(every(R"(, "no_rope_layers": [0, 0, 0, 0, 0])") == 1);
  const UnrotatedLayers unequal = unrotated(R"(, "no_rope_layers": [1, 0, 1, 1, 0])");
  for (const int64_t layer : {0, 1, 2, 3, 4}) {
    CHECK(unequal.is_of(layer) == (layer == 1 || layer == 4));
  }
  CHECK_THROWS_WITH(every(R"(, "no_rope_layers": [1, 0, 1])"),
                    Catch::Contains("3 \"no_rope_layers\" for 5 layers"));
  CHECK_THROWS_WITH(every(R"(, "no_rope_layers": [1, 2, 1, 1, 1])"),
                    Catch::Contains("something else than 1"));
  CHECK_THROWS_WITH(every(R"(, "use_sliding_window": true, "sliding_window": 4)"),
                    Catch::Contains("use_sliding_window"));
}

TEST_CASE("a GPT-NeoX has its MLP beside attention, or after it", "[model]") {
  const auto spec = [](const std::string& keys) {
    return transformer_spec(parse_hf_config(R"({"model_type": "gpt_neox", "hidden_size": 64,
                                            "num_attention_heads": 4)" +
                                                keys + "}",
                                            "c"));
  };
  CHECK(spec("").mlp_input == MlpInput::kBesideAttention);
  CHECK(spec(R"(, "use_parallel_residual": false)").mlp_input == MlpInput::kAfterAttention);
  CHECK(spec(R"(, "attention_bias": false)").attention.in.front().has_bias == false);
  CHECK(spec(R"(, "rotary_emb_base": 77)").rotary->theta == 77);
}

TEST_CASE("a Granite has four factors", "[model]") {
  const auto json = [](const std::string& more) {
    return R"({"model_type": "granite", "hidden_size": 64, "num_attention_heads": 4)" + more + "}";
  };
  const TransformerSpec spec = transformer_spec(
      parse_hf_config(json(R"(, "embedding_multiplier": 12, "attention_multiplier": 0.0078125,
                "residual_multiplier": 0.22, "logits_scaling": 8)"),
                      "c"));
  CHECK(spec.factors.embedding == 12);
  CHECK(spec.factors.embedding_precision == FactorPrecision::kFull);
  CHECK(spec.factors.branch == 0.22);
  CHECK(spec.factors.logits == 0.125);
  CHECK(spec.scores.scale == 0.0078125);
  // Without the key the factor is 1, and not that of other families.
  CHECK(transformer_spec(parse_hf_config(json(""), "c")).scores.scale == 1);
  CHECK(refusal(json(R"(, "head_dim": 16)")) == "accepted");
  CHECK_THAT(refusal(json(R"(, "head_dim": 32)")), Catch::Contains("\"head_dim\""));
  CHECK_THAT(refusal(json(R"(, "logits_scaling": 0)")), Catch::Contains("logits_scaling"));
}

TEST_CASE("rope_parameters of newer configs give theta", "[model]") {
  const auto c = std::get<LlamaConfig>(parse_hf_config(
      llama_with(R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 1234})"), "c"));
  CHECK(c.rope_theta == 1234);
}

TEST_CASE("configs survive a round trip", "[model]") {
  Gpt2Config gpt2;
  gpt2.n_layer = 3;
  gpt2.n_inner = 100;
  gpt2.activation_function = "relu";
  gpt2.attn_pdrop = 0.25;
  gpt2.tie_word_embeddings = false;
  const auto g = std::get<Gpt2Config>(parse_hf_config(format_hf_config(gpt2, DType::kF32), "c"));
  CHECK(g.n_layer == 3);
  CHECK(g.n_inner == 100);
  CHECK(g.activation_function == "relu");
  CHECK(g.attn_pdrop == 0.25);
  CHECK_FALSE(g.tie_word_embeddings);
  LlamaConfig llama;
  llama.rope_theta = 123.5;
  llama.mlp_bias = true;
  const auto l = std::get<LlamaConfig>(parse_hf_config(format_hf_config(llama, DType::kBF16), "c"));
  CHECK(l.rope_theta == 123.5);
  CHECK(l.mlp_bias);
  CHECK_FALSE(l.num_key_value_heads.has_value());
}

TEST_CASE("the other names of GPT-2's sizes are taken, and may not contradict", "[model]") {
  using Catch::Contains;
  const auto c = std::get<Gpt2Config>(parse_hf_config(
      R"({"model_type": "gpt2", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3,
          "max_position_embeddings": 99, "n_layer": 3})",
      "c"));
  CHECK(c.n_embd == 64);
  CHECK(c.n_head == 4);
  CHECK(c.n_layer == 3);
  CHECK(c.n_positions == 99);
  CHECK_THAT(refusal(gpt2_with(R"(, "num_attention_heads": 8)")),
             Contains("\"n_head\" and \"num_attention_heads\"") && Contains("differ"));
  CHECK(refusal(gpt2_with(R"(, "num_attention_heads": 4.0)")) == "accepted");
  CHECK_THAT(refusal(R"({"model_type": "gpt2", "num_hidden_layers": "two"})"),
             Contains("\"num_hidden_layers\" is a string, expected integer"));
  CHECK_THAT(refusal(llama_with(R"(, "rope_theta": 5, "rope_parameters": {"rope_theta": 6})")),
             Contains("rope_theta"));
}

TEST_CASE("ids of tokens are written, and are no part of the model", "[model]") {
  using Catch::Contains;
  const Gpt2Config gpt2;
  CHECK_THAT(format_hf_config(gpt2, DType::kF32, {.eos = 7}),
             Contains("\"eos_token_id\": 7") && Contains("\"bos_token_id\": null"));
  const auto said = [](const std::string& more) {
    return format_hf_config(parse_hf_config(gpt2_with(more), "c"), DType::kF32);
  };
  CHECK(said("") == said(
                        R"(, "bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": 4,
              "torch_dtype": "float16")"));
  CHECK(said("") == said(R"(, "hidden_size": 64)"));
}

TEST_CASE("an export's config.json keeps what the source's says, but for the number type",
          "[model]") {
  using Catch::Contains;
  const std::string source =
      R"({"model_type": "gpt2", "hidden_size": 64, "n_head": 4, "eos_token_id": [2, 3],
      "task": {"a": [1e-5, null, "\u00e9"]}, "dtype": "float16"})";
  const ModelConfig model = parse_hf_config(source, "c");
  const std::string kept = keep_hf_config(source, "c", model, DType::kBF16);
  CHECK_THAT(
      kept, Contains("\"hidden_size\": 64") && Contains("\"task\"") && Contains("GPT2LMHeadModel"));
  CHECK_THAT(kept,
             Contains("\"dtype\": \"bfloat16\"") && Contains("\"torch_dtype\": \"bfloat16\""));
  CHECK(keep_hf_config(kept, "c", model, DType::kBF16) == kept);
  CHECK(format_hf_config(parse_hf_config(kept, "c"), DType::kF32) ==
        format_hf_config(model, DType::kF32));
  CHECK_THROWS_AS(keep_hf_config(gpt2_with(R"(, "n_layer": 5)"), "c", model, DType::kF32),
                  DataError);
  CHECK_THROWS_AS(keep_hf_config(gpt2_with(R"(, "x": NaN)"), "c",
                                 parse_hf_config(gpt2_with(""), "c"), DType::kF32),
                  Unsupported);
}

TEST_CASE("features that are not built are refused by name", "[model]") {
  using Catch::Contains;
  CHECK_THAT(refusal(gpt2_with(R"(, "add_cross_attention": true)")),
             Contains("add_cross_attention"));
  CHECK_THAT(refusal(gpt2_with(R"(, "activation_function": "mish")")), Contains("mish"));
  CHECK_THAT(refusal(gpt2_with(R"(, "quantization_config": {})")), Contains("quantiz"));
  CHECK_THAT(refusal(llama_with(R"(, "rope_scaling": {"rope_type": "llama3"})")),
             Contains("rope_scaling"));
  CHECK_THAT(refusal(llama_with(R"(, "hidden_act": "gelu")")), Contains("hidden_act"));
  CHECK_THAT(refusal(llama_with(R"(, "attention_dropout": 1)")), Contains("attention_dropout"));
  CHECK_THAT(refusal(R"({"architectures": ["FalconForCausalLM"]})"),
             Contains("FalconForCausalLM") && Contains("LlamaForCausalLM"));
  CHECK_THAT(refusal(R"({"model_type": "qwen2", "layer_types": ["sliding_attention"]})"),
             Contains("\"sliding_attention\" among \"layer_types\""));
  CHECK_THAT(refusal(R"({"model_type": "qwen2", "layer_types": ["chunked_attention"]})"),
             Contains("chunked_attention"));
  CHECK_THAT(refusal(R"({"model_type": "qwen2", "layer_types": 1})"),
             Contains("expected list of strings"));
  CHECK_THAT(refusal(R"({"model_type": "qwen2", "head_dim": 64})"), Contains("\"head_dim\""));
  CHECK(refusal(R"({"model_type": "qwen2", "head_dim": 128})") == "accepted");
}

TEST_CASE("impossible or malformed configs are refused with the key", "[model]") {
  using Catch::Contains;
  CHECK_THAT(refusal(R"({"model_type": "gpt2", "n_embd": 65, "n_head": 4})"),
             Contains("config.json: n_head: 4 does not divide n_embd = 65"));
  CHECK_THAT(refusal(gpt2_with(R"(, "n_layer": 0)")), Contains("n_layer"));
  CHECK_THAT(refusal(gpt2_with(R"(, "n_layer": "two")")), Contains("n_layer"));
  CHECK_THAT(refusal(gpt2_with(R"(, "n_layer": 1.5)")), Contains("n_layer"));
  CHECK_THAT(refusal(gpt2_with(R"(, "n_layer": "2")")), Contains("n_layer"));
  CHECK_THAT(refusal(gpt2_with(R"(, "n_layer": true)")), Contains("n_layer"));
  CHECK_THAT(refusal(gpt2_with(R"(, "n_layer": [2])")), Contains("n_layer"));
  CHECK_THAT(refusal(gpt2_with(R"(, "tie_word_embeddings": 1)")), Contains("tie_word_embeddings"));
  CHECK_THAT(refusal(gpt2_with(R"(, "resid_pdrop": NaN)")), Contains("resid_pdrop"));
  CHECK_THAT(refusal(gpt2_with(R"(, "initializer_range": 0)")), Contains("initializer_range"));
  CHECK_THAT(refusal(llama_with(R"(, "rms_norm_eps": "small")")), Contains("rms_norm_eps"));
  CHECK_THAT(refusal(gpt2_with(R"(, "resid_pdrop": 1.0)")), Contains("resid_pdrop"));
  CHECK_THAT(refusal(llama_with(R"(, "num_key_value_heads": 3)")), Contains("num_key_value_heads"));
  CHECK_THAT(refusal(llama_with(R"(, "head_dim": 7)")), Contains("head_dim"));
  for (const char* key : {"n_layer", "n_head", "n_embd", "n_positions", "vocab_size", "n_inner"}) {
    for (const char* value : {"2147483647", "9223372036854775807", "9e15"}) {
      const std::string json = fmt::format(R"({{"model_type": "gpt2", "{}": {}}})", key, value);
      CHECK_THAT(refusal(json),
                 Contains(fmt::format("config.json: {}: ", key)) && Contains("expected integer"));
      CHECK_THROWS_AS(parse_hf_config(json, "config.json"), DataError);
    }
  }
  for (const char* key :
       {"num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size",
        "head_dim", "intermediate_size", "max_position_embeddings", "vocab_size"}) {
    const std::string json =
        fmt::format(R"({{"model_type": "llama", "{}": 9223372036854775806}})", key);
    CHECK_THAT(refusal(json),
               Contains(fmt::format("config.json: {}: ", key)) && Contains("expected integer"));
  }
  CHECK_THAT(refusal("[1]"), Contains("object"));
  CHECK_THAT(refusal("{"), Contains("JSON at byte"));
}

TEST_CASE("a folder's config.json is read", "[model]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  fs.write_text_atomically("/m/config.json", gpt2_with(""));
  CHECK(dimensions(read_hf_config(fs, "/m")).width == 64);
  CHECK_THROWS_AS(read_hf_config(fs, "/none"), InputMissing);
}

TEST_CASE("a file of weights is no model, and its folder is told", "[model]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  fs.write_text_atomically("/m/config.json", gpt2_with(""));
  fs.write_text_atomically("/m/pytorch_model.bin", "PK");
  CHECK_THROWS_WITH(read_hf_config(fs, "/m/pytorch_model.bin"),
                    Catch::Contains("a model is a folder with the weights and their config.json; "
                                    "here, that is /m"));
}
