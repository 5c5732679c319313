// Layers that several ranks share: who has what of every parameter, and what each rank is told.
#include <algorithm>
#include <map>

#include "config/sections/split/partition_rules.h"
#include "model/exchange/tensor.h"
#include "model/families/zoo.h"
#include "model/stores/plain_store.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"

namespace ds {
namespace {

using testing::CpuStream;

std::vector<ParamSpec> specs_of_rank(const ModelConfig& model, const TensorPlace& place) {
  CpuStream cpu;
  PlainStore store(cpu.stream, 0, PlainStore::Gradients::kNone);
  make_stage(model, DType::kF32, store, all_layers(model), {}, place);
  std::vector<ParamSpec> specs;
  for (ParamId id = 0; id < store.count(); ++id) specs.push_back(store.spec(id));
  return specs;
}

TEST_CASE("every element of a model is one rank's, or known to be everybody's", "[model]") {
  const Gpt2Config gpt2{.n_layer = 1, .n_head = 4, .n_embd = 8, .n_positions = 4, .vocab_size = 13};
  const LlamaConfig llama{.num_hidden_layers = 1,
                          .num_attention_heads = 8,
                          .num_key_value_heads = 4,
                          .hidden_size = 16,
                          .intermediate_size = 11,
                          .max_position_embeddings = 4,
                          .vocab_size = 13,
                          .attention_bias = true,
                          .mlp_bias = true};
  for (const ModelConfig& model : {ModelConfig(gpt2), ModelConfig(llama)}) {
    const std::vector<ParamSpec> whole = specs_of_rank(model, {});
    for (const int ranks : {2, 4}) {
      std::vector<std::vector<int>> owners(whole.size());
      for (size_t i = 0; i < whole.size(); ++i) {
        owners[i].resize(static_cast<size_t>(whole[i].shape.numel()));
      }
      for (int rank = 0; rank < ranks; ++rank) {
        const auto specs = specs_of_rank(model, {.rank = rank, .ranks = ranks});
        REQUIRE(specs.size() == whole.size());
        for (size_t i = 0; i < specs.size(); ++i) {
          CAPTURE(specs[i].name);
          CHECK(specs[i].name == whole[i].name);
          CHECK(specs[i].logical_shape() == whole[i].shape);
          const bool is_same = specs[i].replicas.same == std::vector{Axis::kTensor};
          CHECK(is_same == specs[i].cut.is_whole());
          for (const Run& run : runs_of(specs[i].region(), whole[i].shape)) {
            for (int64_t e = run.first; e < run.first + run.numel; ++e) {
              owners[i][static_cast<size_t>(e)] += is_same ? rank == 0 : 1;
            }
          }
        }
      }
      for (size_t i = 0; i < whole.size(); ++i) {
        CAPTURE(model.index(), ranks, whole[i].name);
        CHECK(owners[i] == std::vector<int>(owners[i].size(), 1));
        CHECK(whole[i].replicas.same.empty());
      }
    }
  }
}

// The axis along which a rank has a part: rows of a table and what a Linear gives come first, what
// a Conv1D gives last.
bool is_split_as(const SplitWeight& weight, const ParamSpec& spec) {
  const bool is_table = spec.module == ModuleKind::kEmbedding;
  const bool gives_last = spec.name.starts_with("transformer.h.");
  const bool is_of_output = weight.split == PartitionType::kColumn;
  const int axis = is_table ? 0 : is_of_output == gives_last ? 1 : 0;
  return spec.shape[axis] < spec.logical_shape()[axis] &&
         spec.shape[1 - axis] == spec.logical_shape()[1 - axis];
}

TEST_CASE("matrices of which ranks have parts are those that rules of a file are compared with",
          "[model]") {
  Gpt2Config gpt2{.n_layer = 2, .n_head = 4, .n_embd = 8, .n_positions = 4, .vocab_size = 13};
  LlamaConfig llama{.num_hidden_layers = 2,
                    .num_attention_heads = 4,
                    .num_key_value_heads = 2,
                    .hidden_size = 8,
                    .intermediate_size = 11,
                    .max_position_embeddings = 4,
                    .vocab_size = 13};
  for (const bool tied : {true, false}) {
    gpt2.tie_word_embeddings = llama.tie_word_embeddings = tied;
    for (const ModelConfig& model : {ModelConfig(gpt2), ModelConfig(llama)}) {
      std::vector<std::string> expected, got;
      std::map<std::string, SplitWeight> weights;
      for (const SplitWeight& weight : split_weights(model)) {
        expected.push_back(weight.name);
        weights.emplace(weight.name, weight);
      }
      for (const ParamSpec& spec : specs_of_rank(model, {.rank = 1, .ranks = 2})) {
        if (spec.cut.is_whole() || spec.shape.rank() != 2) continue;
        got.push_back(spec.name);
        CAPTURE(spec.name);
        REQUIRE(weights.contains(spec.name));
        CHECK(is_split_as(weights.at(spec.name), spec));
      }
      std::ranges::sort(got);
      std::ranges::sort(expected);
      CHECK(got == expected);
    }
  }
}

TEST_CASE(
    "heads of keys that are too few are on several ranks that each make a part of their gradient",
    "[model]") {
  const LlamaConfig llama{.num_hidden_layers = 1,
                          .num_attention_heads = 8,
                          .num_key_value_heads = 2,
                          .hidden_size = 16,
                          .intermediate_size = 12,
                          .max_position_embeddings = 4,
                          .vocab_size = 16,
                          .attention_bias = true};
  for (const auto& [ranks, replicas] : {std::pair{2, 1}, std::pair{4, 2}, std::pair{8, 4}}) {
    for (int rank = 0; rank < ranks; ++rank) {
      CAPTURE(ranks, rank);
      const TensorPlace place{.rank = rank, .ranks = ranks};
      const TensorShare share = tensor_share(dimensions(ModelConfig(llama)), place);
      CHECK(share.key_replicas == replicas);
      CHECK(share.kv_heads == Range{rank / replicas, rank / replicas + 1});
      // The queries that are here look at the key that is here.
      CHECK(share.heads.begin / 4 == share.kv_heads.begin);
      CHECK((share.heads.end - 1) / 4 == share.kv_heads.begin);
      int summed = 0;
      for (const ParamSpec& spec : specs_of_rank(llama, place)) {
        CAPTURE(spec.name);
        const bool of_keys = spec.name.find("k_proj") != std::string::npos ||
                             spec.name.find("v_proj") != std::string::npos;
        const bool is_summed = of_keys && replicas > 1;
        CHECK(spec.replicas.summed ==
              (is_summed ? std::vector{Axis::kKeyReplica} : std::vector<Axis>{}));
        if (of_keys) CHECK(spec.shape[0] == 2);  // one head of two elements
        summed += is_summed ? 1 : 0;
      }
      CHECK(summed == (replicas > 1 ? 4 : 0));  // weights and biases of keys and values
    }
  }
  CHECK(mesh_for(dimensions(ModelConfig(llama)), {.data = 3, .tensor = 8}).key_replicas == 4);
}

TEST_CASE("shares are even but for a grain, and heads for nothing", "[model]") {
  const ModelDimensions dims{.vocabulary = 50257, .heads = 8, .kv_heads = 4, .inner = 512};
  const auto share = [&](int rank, int64_t grain) {
    return tensor_share(dims, {.rank = rank, .ranks = 4, .grain = grain});
  };
  CHECK(share(0, 1).vocabulary == Range{0, 12565});
  CHECK(share(3, 1).vocabulary == Range{37693, 50257});
  CHECK(share(1, 64).vocabulary == Range{12608, 25152});
  CHECK(share(3, 64).vocabulary == Range{37696, 50257});
  CHECK(share(2, 1).heads == Range{4, 6});
  CHECK(share(2, 1).kv_heads == Range{2, 3});
  CHECK(share(1, 1).inner == Range{128, 256});
  CHECK(share(1, 1).has_size_of(share(2, 1)));
  CHECK_FALSE(share(0, 1).has_size_of(share(1, 1)));
  CHECK_THROWS_WITH(tensor_share(dims, {.rank = 0, .ranks = 3}),
                    Catch::Contains("8 heads and 4 of keys and values, which 3 ranks cannot"));
  CHECK_THROWS_WITH(tensor_share(dims, {.rank = 2, .ranks = 4, .grain = 200}),
                    Catch::Contains("rank 2 of 4 has nothing of 512"));
}

}  // namespace
}  // namespace ds
