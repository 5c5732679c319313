// What tensors of transformers' are made of, under the names of Megatron-LM.
#include "train/convert/megatron.h"

#include <map>
#include <memory>

#include "config/families/hf_config.h"
#include "core/status/error.h"
#include "model/families/zoo.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Ranges = std::vector<Range>;

// fp32 tensors whose elements are their own places.
class Stored final : public StoredTensors {
 public:
  explicit Stored(const std::map<std::string, Shape>& shapes) {
    for (const auto& [name, shape] : shapes) {
      infos_.emplace(name, SafetensorsInfo{.dtype_name = "F32",
                                           .stored_dtype = DType::kF32,
                                           .shape = shape,
                                           .bytes = shape.numel() * int64_t{sizeof(float)}});
    }
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, info] : infos_) names.push_back(name);
    return names;
  }
  const SafetensorsInfo& info(const std::string& name) const override { return infos_.at(name); }
  void read_part(const std::string&, int64_t offset, std::span<std::byte> into) const override {
    for (size_t at = 0; at < into.size(); at += sizeof(float)) {
      const int64_t element = offset / int64_t{sizeof(float)};
      const auto value = static_cast<float>(element);
      std::memcpy(&into[at], &value, sizeof(float));
      offset += int64_t{sizeof(float)};
    }
  }

 private:
  std::map<std::string, SafetensorsInfo> infos_;
};

WeightFolder stored(const std::map<std::string, Shape>& shapes) {
  return WeightFolder(std::make_shared<const Stored>(shapes));
}

ModelConfig llama(int kv_heads) {
  return parse_hf_config(fmt::format(R"({{"model_type": "llama", "num_hidden_layers": 1,
      "num_attention_heads": 2, "num_key_value_heads": {}, "hidden_size": 4,
      "intermediate_size": 4, "vocab_size": 3, "max_position_embeddings": 8}})",
                                     kv_heads),
                         "config.json");
}

Ranges rows_of(const std::string& name, const ModelConfig& model, const WeightFolder& from,
               double version) {
  const std::vector<ParamSpec> specs = specs_of_model(model, DType::kF32);
  for (const TakenRows& taken : taken_rows(model, specs, from, version)) {
    if (taken.name == name) return taken.rows;
  }
  return {};
}

const std::string kHeads = "language_model.encoder.layers.0.self_attention.query_key_value.weight";
const std::string kKeys = "model.layers.0.self_attn.k_proj.weight";
const std::string kQueries = "model.layers.0.self_attn.q_proj.weight";

TEST_CASE("queries, keys and values are ordered as checkpoint_version says", "[train]") {
  const WeightFolder from = stored({{kHeads, {12, 4}}});
  CHECK(rows_of(kKeys, llama(2), from, 0) == Ranges{{4, 8}});
  CHECK(rows_of(kKeys, llama(2), from, 1) == Ranges{{1, 2}, {4, 5}, {7, 8}, {10, 11}});
  CHECK(rows_of(kKeys, llama(2), from, 2) == Ranges{{2, 4}, {8, 10}});
  CHECK(rows_of(kQueries, llama(2), from, 3) == Ranges{{0, 2}, {6, 8}});
}

TEST_CASE("a group has its queries before its key and its value", "[train]") {
  const WeightFolder from = stored({{kHeads, {8, 4}}});
  CHECK(rows_of(kQueries, llama(1), from, 3) == Ranges{{0, 4}});
  CHECK(rows_of(kKeys, llama(1), from, 3) == Ranges{{4, 6}});
  CHECK_THROWS_AS(rows_of(kKeys, llama(1), from, 0), Unsupported);
  CHECK_THROWS_WITH(rows_of(kKeys, llama(2), from, 3),
                    Catch::Contains("has 8 rows") && Catch::Contains("2 heads"));
}

TEST_CASE("names of several releases of Megatron are known, in wrappers or not", "[train]") {
  using Names = std::vector<std::string>;
  CHECK(has_names_of_megatron(Names{kHeads}));
  CHECK(has_names_of_megatron(Names{"module.model." + kHeads}));
  CHECK_FALSE(has_names_of_megatron(Names{"language_model.model.layers.0.mlp.up_proj.weight"}));
  CHECK_FALSE(has_names_of_megatron(Names{"transformer.wte.weight"}));
  const ModelConfig model = llama(2);
  const std::vector<ParamSpec> specs = specs_of_model(model, DType::kF32);
  const WeightFolder made = from_megatron(
      stored(
          {{"model.language_model.embedding.word_embeddings.weight", {5, 4}},
           {"model.language_model.transformer.layers.0.attention.query_key_value.weight", {12, 4}},
           {"model.language_model.transformer.layers.0.input_norm.weight", {4}},
           {"model.language_model.pooler.weight", {1}}}),
      model, specs, 3);
  CHECK(made.names() ==
        Names{"language_model.pooler.weight", "model.embed_tokens.weight",
              "model.layers.0.input_layernorm.weight", "model.layers.0.self_attn.k_proj.weight",
              "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.v_proj.weight"});
  CHECK(made.info("model.embed_tokens.weight").shape == Shape{3, 4});  // no padding
  std::vector<float> part(5);
  made.read_part("model.layers.0.self_attn.k_proj.weight", 5 * sizeof(float),
                 std::as_writable_bytes(std::span(part)));
  CHECK(part == std::vector<float>{13, 14, 15, 32, 33});
}

TEST_CASE("linear layers of a GPT-2 are turned, from any place on", "[train]") {
  const ModelConfig model = parse_hf_config(
      R"({"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2, "n_positions": 8,
          "vocab_size": 16, "n_inner": 3})",
      "config.json");
  const std::vector<ParamSpec> specs = specs_of_model(model, DType::kF32);
  const WeightFolder made =
      from_megatron(stored({{"language_model.encoder.layers.0.mlp.dense_h_to_4h.weight", {3, 2}}}),
                    model, specs, 3);
  const std::string name = "transformer.h.0.mlp.c_fc.weight";
  CHECK(made.info(name).shape == Shape{2, 3});
  std::vector<float> part(4);
  made.read_part(name, 2 * sizeof(float), std::as_writable_bytes(std::span(part)));
  CHECK(part == std::vector<float>{4, 1, 3, 5});
}

}  // namespace
}  // namespace ds
