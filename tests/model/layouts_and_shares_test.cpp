// Sparse layouts, tensor shares, gates of experts and pipelines over many generated inputs, each
// against a plain statement of its rule.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/status/error.h"
#include "core/values/rng.h"
#include "model/parallel/moe_gate.h"
#include "model/parallel/pipeline_cut.h"
#include "model/parallel/pipeline_schedule.h"
#include "model/parallel/pipeline_timing.h"
#include "model/parallel/tensor_shard.h"
#include "model/progressive_layer_drop.h"
#include "model/sparse_layout.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

constexpr auto kUni = AttentionDirection::kUnidirectional;
constexpr auto kBi = AttentionDirection::kBidirectional;

// Compares every block of every head with a rule of (head, row, column).
template <class Rule>
void check_blocks(const BlockLayout& layout, const Rule& rule) {
  for (int64_t head = 0; head < layout.heads(); ++head) {
    for (int64_t row = 0; row < layout.blocks(); ++row) {
      for (int64_t column = 0; column < layout.blocks(); ++column) {
        CAPTURE(head, row, column);
        REQUIRE(layout.at(head, row, column) == rule(head, row, column));
      }
    }
  }
}

TEST_CASE("a sliding window sees as many blocks on either side, and none ahead when causal",
          "[model]") {
  for (const AttentionDirection direction : {kUni, kBi}) {
    for (const int64_t window : {0, 1, 2, 3, 4, 9}) {
      const BlockLayout layout =
          sparse_layout(SlidingWindowLayout{window, direction}, 2, 9 * 16, 16, Rng(1, "layout"));
      check_blocks(layout, [&](int64_t, int64_t row, int64_t column) {
        const bool near = std::abs(row - column) <= window / 2;
        return near && (direction == kBi || column <= row);
      });
    }
  }
}

TEST_CASE("a fixed layout is windows and the last blocks of each, by head where asked", "[model]") {
  for (const AttentionDirection direction : {kUni, kBi}) {
    const FixedLayout rule{.heads = HeadLayout::kPerHead,
                           .num_local_blocks = 4,
                           .num_global_blocks = 1,
                           .direction = direction,
                           .num_different_global_patterns = 3};
    const BlockLayout layout = sparse_layout(rule, 5, 12, 1, Rng(1, "layout"));
    check_blocks(layout, [&](int64_t head, int64_t row, int64_t column) {
      const bool local = row / 4 == column / 4 && (direction == kBi || column <= row);
      const bool global = column % 4 == 3 - head % 3;
      return local || (global && (direction == kBi || column <= row));
    });
  }
}

TEST_CASE("a longformer is a window and its global blocks, both ways", "[model]") {
  const BsLongformerLayout rule{.num_sliding_window_blocks = 3,
                                .global = {.first = {0, 5}, .last = std::vector<int64_t>{2, 6}}};
  const BlockLayout layout = sparse_layout(rule, 1, 8, 1, Rng(1, "layout"));
  const auto global = [](int64_t block) { return block < 2 || block == 5; };
  check_blocks(layout, [&](int64_t, int64_t row, int64_t column) {
    return std::abs(row - column) <= 1 || global(row) || global(column);
  });
}

TEST_CASE("a variable layout has windows whose last size repeats", "[model]") {
  const VariableLayout rule{.local_window_blocks = {1, 3}, .global = {.first = {}, .last = {}}};
  const BlockLayout layout = sparse_layout(rule, 1, 9, 1, Rng(1, "layout"));
  const auto window = [](int64_t block) { return block == 0 ? 0 : 1 + (block - 1) / 3; };
  check_blocks(layout,
               [&](int64_t, int64_t row, int64_t column) { return window(row) == window(column); });
}

TEST_CASE("random blocks are as many in each row as asked, besides what is there anyway",
          "[model]") {
  const VariableLayout rule{
      .num_random_blocks = 4, .local_window_blocks = {1}, .global = {.first = {}, .last = {}}};
  const BlockLayout layout = sparse_layout(rule, 1, 20, 1, Rng(7, "layout"));
  for (int64_t row = 0; row < 20; ++row) {
    const std::string text = layout.row_text(0, row);
    const auto seen = std::ranges::count(text, '1');
    CHECK(seen >= 4);
    CHECK(seen <= 5);
    CHECK(text[static_cast<size_t>(row)] == '1');
  }
}

TEST_CASE("a dense layout is everything, and a head is a copy where it is shared", "[model]") {
  const BlockLayout layout = sparse_layout(DenseLayout{}, 3, 64, 16, Rng(1, "layout"));
  CHECK(layout.count() == 3 * 4 * 4);
  CHECK(layout.row_text(2, 3) == "1111");
  BlockLayout empty(1, 2);
  CHECK(empty.count() == 0);
  empty.fill(0, -5, 100, 1, 100);  // what lies outside is cut off
  CHECK(empty.row_text(0, 0) + empty.row_text(0, 1) == "0101");
  empty.keep_lower_triangle(0);
  CHECK(empty.row_text(0, 0) + empty.row_text(0, 1) == "0001");
}

TEST_CASE("layouts that contradict themselves are refused with the key", "[model]") {
  struct Case {
    SparseLayoutRule rule;
    int64_t length, block;
    const char* message;
  };
  const Case cases[] = {
      {DenseLayout{}, 60, 16, "60 tokens is no multiple of the block size 16; pad it"},
      {DenseLayout{}, 0, 16, "a sequence of 0 tokens"},
      {DenseLayout{}, 64, 0, "block is 0, expected at least 1"},
      {FixedLayout{.num_local_blocks = 0}, 64, 16, "num_local_blocks is 0"},
      {FixedLayout{.num_global_blocks = 0}, 64, 16, "num_global_blocks is 0"},
      {FixedLayout{.num_local_blocks = 4, .num_global_blocks = 3}, 64, 16,
       "num_local_blocks 4 is no multiple of num_global_blocks 3"},
      {FixedLayout{.num_different_global_patterns = 2}, 64, 16, "needs different_layout_per_head"},
      {FixedLayout{.heads = HeadLayout::kPerHead, .num_different_global_patterns = 5}, 64, 16,
       "num_different_global_patterns is 5, at most 4"},
      {FixedLayout{.direction = kUni, .global_rows = GlobalRows::kOn}, 64, 16,
       "horizontal_global_attention needs attention bidirectional"},
      {VariableLayout{.local_window_blocks = {}}, 64, 16, "local_window_blocks is empty"},
      {VariableLayout{.local_window_blocks = {4, 0}}, 64, 16,
       "an entry of local_window_blocks is 0"},
      {VariableLayout{.num_random_blocks = 5}, 64, 16, "num_random_blocks is 5 but the sequence"},
      {VariableLayout{.global = {.first = {-1}, .last = {}}}, 64, 16,
       "global block range 0 is empty or negative"},
      {BsLongformerLayout{.global = {.first = {0, 2}, .last = std::vector<int64_t>{1, 2}}}, 64, 16,
       "global block range 1 is empty or negative"},
      {BigBirdLayout{.num_sliding_window_blocks = 5}, 64, 16, "num_sliding_window_blocks is 5"},
      {BigBirdLayout{.num_global_blocks = -1}, 64, 16, "num_global_blocks is -1"},
      {SlidingWindowLayout{.num_sliding_window_blocks = 9}, 64, 16, "has 4 blocks"}};
  for (const Case& one : cases) {
    CAPTURE(one.message);
    const auto make = [&] {
      return sparse_layout(one.rule, 2, one.length, one.block, Rng(1, "layout"));
    };
    CHECK_THROWS_AS(make(), ConfigError);
    CHECK_THROWS_WITH(make(), Catch::Contains(one.message));
  }
  CHECK_THROWS_WITH(sparse_layout(DenseLayout{}, 0, 64, 16, Rng(1, "layout")),
                    Catch::Contains("the number of heads is 0"));
}

TEST_CASE("shares of a dimension add up, fall with the rank, and keep grains and heads whole",
          "[model]") {
  for (const int64_t total : {0, 1, 15, 64, 100, 768, 50257}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const int64_t grain : {1, 8, 64}) {
        const std::vector<int64_t> sizes =
            tensor_shard_sizes(total, ranks, {.layer = "mlp.down_proj", .grain = grain});
        CAPTURE(total, ranks, grain);
        CHECK(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) == total);
        for (size_t r = 0; r + 1 < sizes.size(); ++r) {
          // Only the last rank may take what is left of a grain.
          if (total >= grain) REQUIRE(sizes[r] % grain == 0);
          if (r > 0) REQUIRE(sizes[r] <= sizes[r - 1]);
        }
      }
      if (total % 4 == 0) {
        const std::vector<int64_t> heads =
            tensor_shard_sizes(total, ranks, {.layer = "attn.k_proj", .kv_heads = 4});
        for (const int64_t size : heads) REQUIRE(size % std::max<int64_t>(1, total / 4) == 0);
        CHECK(std::accumulate(heads.begin(), heads.end(), int64_t{0}) == total);
      }
    }
  }
  // Feed-forward weights and the output projection do not follow the heads.
  for (const char* layer :
       {"mlp", "gate_proj", "up_proj", "experts.0.w1", "w2", "w3", "lm_head", "embed_out"}) {
    CAPTURE(layer);
    CHECK(tensor_shard_sizes(12, 5, {.layer = layer, .kv_heads = 4}) ==
          std::vector<int64_t>{3, 3, 2, 2, 2});
  }
  CHECK(tensor_shard_sizes(12, 5, {.layer = "o_proj", .kv_heads = 4}) ==
        std::vector<int64_t>{3, 3, 3, 3, 0});
  CHECK_THROWS_WITH(tensor_shard_sizes(4, 2, {.layer = "", .grain = 0}),
                    Catch::Contains("4 elements over 2 ranks in grains of 0"));
  CHECK_THROWS_AS(tensor_shard_sizes(-1, 2, {.layer = ""}), ConfigError);
}

struct Routed {
  std::vector<float> logits;
  Gate gate;
};

Routed route(uint64_t seed, int64_t tokens, int64_t experts, GateOptions options) {
  Routed routed;
  routed.logits.resize(static_cast<size_t>(tokens * experts));
  Rng(seed, "logits").normals(0, routed.logits);
  routed.gate = gate(routed.logits, tokens, experts, options);
  return routed;
}

// Softmax of a token's logits in fp64.
std::vector<double> shares(const Routed& routed, int64_t token) {
  const auto width = static_cast<size_t>(routed.gate.experts);
  std::vector<double> out(width);
  double sum = 0;
  for (size_t e = 0; e < width; ++e) {
    sum += out[e] =
        std::exp(static_cast<double>(routed.logits[static_cast<size_t>(token) * width + e]));
  }
  for (double& value : out) value /= sum;
  return out;
}

TEST_CASE("without a limit every token keeps its k best experts, with weights of 1 together",
          "[model]") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const int k = 1 + static_cast<int>(seed % 4);
    const Routed routed =
        route(seed, 17, 6, {.rule = GateRule::kTopK, .k = k, .drop = TokenDrop::kNever});
    const Gate& gate = routed.gate;
    std::vector<int64_t> counts(6, 0);
    for (int64_t t = 0; t < 17; ++t) {
      const std::vector<double> share = shares(routed, t);
      std::vector<double> best = share;
      std::ranges::sort(best, std::greater());
      double sum = 0, kept = 0;
      for (int j = 0; j < k; ++j) {
        const auto at = static_cast<size_t>(j * 17 + t);
        const auto expert = static_cast<size_t>(gate.expert[at]);
        REQUIRE(share[expert] == Approx(best[static_cast<size_t>(j)]));
        ++counts[expert];
        kept += share[expert];
        sum += static_cast<double>(gate.weight[at]);
      }
      REQUIRE(sum == Approx(1));
      const auto first = static_cast<size_t>(gate.expert[static_cast<size_t>(t)]);
      REQUIRE(static_cast<double>(gate.weight[static_cast<size_t>(t)]) ==
              Approx(share[first] / kept));
    }
    CHECK(gate.expert_counts == counts);
    CHECK(gate.capacity == *std::ranges::max_element(counts));
  }
}

TEST_CASE("over capacity, a choice by probability keeps the surest tokens of each expert",
          "[model]") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Routed routed = route(seed, 40, 4,
                                {.rule = GateRule::kTopK,
                                 .k = 1,
                                 .capacity_factor = 0.5,
                                 .min_capacity = 1,
                                 .policy = DropPolicy::kProbability});
    const Gate& gate = routed.gate;
    REQUIRE(gate.capacity == 5);
    std::map<size_t, std::vector<double>> kept, dropped;
    for (int64_t t = 0; t < 40; ++t) {
      const std::vector<double> share = shares(routed, t);
      const auto choice = static_cast<size_t>(std::ranges::max_element(share) - share.begin());
      const bool stays = gate.expert[static_cast<size_t>(t)] >= 0;
      (stays ? kept : dropped)[choice].push_back(share[choice]);
      if (!stays) {
        CHECK(gate.weight[static_cast<size_t>(t)] == 0);
        CHECK(gate.slot[static_cast<size_t>(t)] == 0);
      }
    }
    for (const auto& [expert, lost] : dropped) {
      REQUIRE(kept[expert].size() == 5);
      CHECK(*std::ranges::max_element(lost) <= *std::ranges::min_element(kept[expert]) + 1e-6);
    }
  }
}

TEST_CASE("tokens that do not take part go nowhere and count nowhere", "[model]") {
  const std::vector<uint8_t> used{1, 0, 1, 0, 0, 1};
  const Routed routed = route(
      3, 6, 3,
      {.rule = GateRule::kTop1, .min_capacity = 0, .drop = TokenDrop::kNever, .used_tokens = used});
  for (size_t t = 0; t < used.size(); ++t) {
    CHECK((routed.gate.expert[t] >= 0) == (used[t] == 1));
    CHECK((routed.gate.weight[t] > 0) == (used[t] == 1));
  }
  CHECK(std::accumulate(routed.gate.expert_counts.begin(), routed.gate.expert_counts.end(),
                        int64_t{0}) == 3);
  const std::vector<uint8_t> short_list{1, 0};
  CHECK_THROWS_WITH(route(3, 6, 3, {.min_capacity = 0, .used_tokens = short_list}),
                    Catch::Contains("used_tokens has 2 entries for 6 tokens"));
}

TEST_CASE("the load balance loss is least when tokens are spread evenly", "[model]") {
  // Each token sure of one expert: all of one, or each of its own.
  std::vector<float> one(4 * 4, 0.0F), even(4 * 4, 0.0F);
  for (size_t t = 0; t < 4; ++t) {
    one[t * 4] = 20;
    even[t * 4 + t] = 20;
  }
  const GateOptions options{.min_capacity = 0};
  CHECK(gate(even, 4, 4, options).aux_loss == Approx(1).epsilon(1e-4));
  CHECK(gate(one, 4, 4, options).aux_loss == Approx(4).epsilon(1e-4));
}

TEST_CASE("capacity is the rounded-up share of tokens, and never below its least", "[model]") {
  for (int64_t tokens = 0; tokens < 30; ++tokens) {
    for (const int64_t experts : {1, 3, 8}) {
      for (const double factor : {0.5, 1.0, 2.0}) {
        const auto exact = static_cast<int64_t>(
            std::ceil(static_cast<double>(tokens) / static_cast<double>(experts) * factor - 1e-6));
        CHECK(expert_capacity(tokens, experts, factor, 2) == std::max<int64_t>(exact, 2));
      }
    }
  }
  CHECK_THROWS_WITH(expert_capacity(4, 0, 1, 1), Catch::Contains("4 tokens on 0 experts"));
}

TEST_CASE("a stage holds the chunk that the chain says, and back", "[model]") {
  for (const PipelineKind kind :
       {PipelineKind::kGpipe, PipelineKind::kInterleaved, PipelineKind::kZeroBubbleV}) {
    for (int stages = 1; stages < 6; ++stages) {
      const int chunks = kind == PipelineKind::kGpipe         ? 1
                         : kind == PipelineKind::kZeroBubbleV ? 2
                                                              : 3;
      const PipelineShape shape{.micro_batches = stages, .stages = stages, .chunks = chunks};
      std::set<int> seen;
      for (int stage = 0; stage < stages; ++stage) {
        for (int chunk = 0; chunk < chunks; ++chunk) {
          const int at = virtual_stage(kind, shape, stage, chunk);
          CHECK(seen.insert(at).second);
          CHECK(at >= 0);
          CHECK(at < stages * chunks);
          CHECK(stage_of(kind, shape, at) == stage);
        }
      }
    }
  }
  // In a V the last stage has both middle chunks, so that nothing is sent at the turn.
  const PipelineShape v{.stages = 3, .chunks = 2};
  CHECK(stage_of(PipelineKind::kZeroBubbleV, v, 2) == stage_of(PipelineKind::kZeroBubbleV, v, 3));
}

TEST_CASE("every sent message of a pipeline is received, by its peer and in order", "[model]") {
  for (const PipelineKind kind : {PipelineKind::kInference, PipelineKind::k1F1B,
                                  PipelineKind::kGpipe, PipelineKind::kZeroBubbleH1}) {
    const PipelineShape shape{.micro_batches = 5, .stages = 4};
    using Wire = std::tuple<int, int, bool>;  // from, to, forward
    std::map<Wire, std::vector<int>> sent, received;
    for (int stage = 0; stage < 4; ++stage) {
      const PipelineSchedule schedule = pipeline_schedule(kind, shape, stage);
      for (const auto& step : schedule.steps) {
        for (const PipelineInstruction& i : step) {
          if (i.op == PipelineOp::kSendActivation)
            sent[{stage, i.peer, true}].push_back(i.micro_batch);
          if (i.op == PipelineOp::kSendGrad) sent[{stage, i.peer, false}].push_back(i.micro_batch);
          if (i.op == PipelineOp::kRecvActivation) {
            received[{i.peer, stage, true}].push_back(i.micro_batch);
          }
          if (i.op == PipelineOp::kRecvGrad)
            received[{i.peer, stage, false}].push_back(i.micro_batch);
        }
      }
    }
    CAPTURE(to_string(kind));
    CHECK(sent == received);
    CHECK(sent.size() == (kind == PipelineKind::kInference ? 3 : 6));
  }
}

TEST_CASE("a pipeline's time grows with its costs and its messages", "[model]") {
  const PipelineShape shape{.micro_batches = 6, .stages = 3};
  const auto makespan = [&](const PipelineCosts& costs) {
    std::vector<PipelineSchedule> stages;
    for (int s = 0; s < 3; ++s) stages.push_back(pipeline_schedule(PipelineKind::k1F1B, shape, s));
    return time_pipeline(stages, costs).makespan;
  };
  const int64_t plain = makespan({});
  CHECK(makespan({.forward = 2, .backward_input = 2, .backward_weight = 2}) == 2 * plain);
  CHECK(makespan({.message = 1}) > plain);
  CHECK(makespan({.forward = 5}) > plain);
  CHECK(time_pipeline({}, {}).makespan == 0);
}

TEST_CASE("impossible pipelines are refused in numbers", "[model]") {
  struct Case {
    PipelineKind kind;
    PipelineShape shape;
    int stage;
    const char* message;
  };
  const Case cases[] = {
      {PipelineKind::k1F1B, {.micro_batches = 0}, 0, "0 micro-batches, 1 stages, 1 chunks"},
      {PipelineKind::k1F1B, {.stages = 0}, 0, "1 micro-batches, 0 stages"},
      {PipelineKind::k1F1B, {.stages = 2}, -1, "stage -1 is outside 0..1"},
      {PipelineKind::k1F1B, {.stages = 2}, 2, "stage 2 is outside 0..1"},
      {PipelineKind::kGpipe, {.chunks = 2}, 0, "gpipe has 2 chunks per rank, expected 1"},
      {PipelineKind::kZeroBubbleV, {.chunks = 3}, 0, "zb_v has 3 chunks per rank, expected 2"},
      {PipelineKind::kInterleaved,
       {.micro_batches = 5, .stages = 2, .chunks = 2},
       0,
       "5 micro-batches are not a multiple of 2 stages"}};
  for (const Case& one : cases) {
    CAPTURE(one.message);
    CHECK_THROWS_AS(pipeline_schedule(one.kind, one.shape, one.stage), ConfigError);
    CHECK_THROWS_WITH(pipeline_schedule(one.kind, one.shape, one.stage),
                      Catch::Contains(one.message));
  }
}

TEST_CASE("every instruction is printed by its name, with its buffer where it has one", "[model]") {
  std::set<std::string_view> names;
  for (int op = 0; op <= static_cast<int>(PipelineOp::kOptimizerStep); ++op) {
    names.insert(to_string(static_cast<PipelineOp>(op)));
  }
  CHECK(names.size() == 12);
  CHECK(to_string(PipelineInstruction{.op = PipelineOp::kRecvGrad, .buffer = 3}) == "RecvGrad:3");
  CHECK(to_string(PipelineInstruction{.op = PipelineOp::kReduceGrads}) == "ReduceGrads");
}

TEST_CASE("a model is cut by the layers of a class, in a pattern of any case", "[model]") {
  std::vector<CutLayer> layers{{"Embedding", 1000}};
  for (int i = 0; i < 8; ++i) layers.push_back({"TransformerBlock", 10});
  layers.push_back({"Head", 1000});
  for (const char* method : {"type:transformer", "TYPE:TRANSFORMERBLOCK", "type:^trans.*block$"}) {
    const std::vector<int64_t> bounds = cut_layers(method, layers, 4);
    CAPTURE(method);
    REQUIRE(bounds.size() == 5);
    for (size_t s = 0; s < 4; ++s) {
      int blocks = 0;
      for (int64_t i = bounds[s]; i < bounds[s + 1]; ++i) {
        blocks += layers[static_cast<size_t>(i)].type == "TransformerBlock" ? 1 : 0;
      }
      CHECK(blocks == 2);
    }
  }
  CHECK_THROWS_WITH(cut_layers("type:(open", layers, 2),
                    Catch::Contains("'(open' is no regular expression (at character 5)"));
  CHECK_THROWS_WITH(cut_layers("types:x", layers, 2),
                    Catch::Contains("pipeline.partition is 'types:x'"));
}

TEST_CASE("the chance of a layer to stay falls with depth and with time, between its bounds",
          "[model]") {
  ProgressiveLayerDrop drop(0.3, 0.01);
  CHECK(drop.current() == 1);
  CHECK(drop.keep_probability(11, 12) == 1);
  double before = 1.1;
  for (const int64_t step : {0, 1, 10, 100, 10000}) {
    const double theta = drop.update(step);
    CHECK(theta == Approx(0.7 * std::exp(-0.01 * static_cast<double>(step)) + 0.3));
    CHECK(theta < before);
    before = theta;
    for (int64_t layer = 0; layer < 12; ++layer) {
      const double kept = drop.keep_probability(layer, 12);
      CHECK(kept >= theta - 1e-12);
      if (layer > 0) CHECK(kept <= drop.keep_probability(layer - 1, 12));
    }
    CHECK(drop.keep_probability(11, 12) == Approx(theta));
  }
  ProgressiveLayerDrop other(0.3, 0.01);
  other.restore(drop.current());
  CHECK(other.current() == drop.current());
  for (const int64_t layer : {-1, 12}) {
    CHECK_THROWS_WITH(drop.keep_probability(layer, 12),
                      Catch::Contains(fmt::format("layer {} of 12", layer)));
  }
}

}  // namespace
}  // namespace ds
