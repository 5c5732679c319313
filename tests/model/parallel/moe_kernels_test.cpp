// kernels/moe as gates: bit-equal to model/parallel/moe_gate, on the golden commands of that and on
// random logits.
#include <algorithm>

#include "core/values/rng.h"
#include "kernels/moe/capacity.h"
#include "kernels/moe/expert_order.h"
#include "kernels/moe/expert_rows.h"
#include "kernels/moe/route.h"
#include "kernels/moe/router_loss.h"
#include "model/parallel/moe_gate.h"
#include "tests/model/parallel/gate_commands.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/test_stream.h"

namespace ds {
namespace {

using testing::GateCommand;
using testing::TestStream;

std::vector<int32_t> ints_of(const Tensor& tensor) {
  const Tensor host = testing::host_copy(tensor);
  return {host.data<int32_t>(), host.data<int32_t>() + host.numel()};
}

double number_of(const Tensor& tensor) { return testing::host_copy(tensor).data<double>()[0]; }

// A gate by kernels, step by step.
class KernelGate {
 public:
  KernelGate(Stream& stream, const std::vector<float>& logits, int64_t experts,
             const GateOptions& options)
      : stream_(stream), options_(options) {
    gate_.k = options.rule == GateRule::kTop1 ? 1 : options.rule == GateRule::kTop2 ? 2 : options.k;
    gate_.experts = experts;
    gate_.tokens = static_cast<int64_t>(logits.size()) / experts;
    rule_ = {.experts = experts, .choices = gate_.k};
    logits_ = testing::upload(logits, {gate_.tokens, experts}, stream);
  }

  Gate make() {
    choose();
    sort();
    for (const int32_t count : ints_of(sorted_.counts)) gate_.expert_counts.push_back(count);
    balance();
    drop();
    weigh();
    return gate_;
  }

 private:
  Tensor integers(int64_t count) { return Tensor::empty({count}, DType::kI32, stream_); }

  void choose() {
    experts_ = integers(gate_.tokens * gate_.k);
    weights_ = Tensor::empty({gate_.tokens, gate_.k}, DType::kF32, stream_);
    scores_ = Tensor::empty({gate_.tokens, gate_.experts}, DType::kF32, stream_);
    Tensor used;
    if (!options_.used_tokens.empty()) {
      used = testing::upload(
          std::vector<uint8_t>(options_.used_tokens.begin(), options_.used_tokens.end()),
          {gate_.tokens}, stream_);
    }
    kernels::route(stream_, {.rule = rule_,
                             .logits = logits_,
                             .used = used,
                             .experts = experts_,
                             .weights = weights_,
                             .scores = scores_});
  }

  Tensor sort() {
    sorted_ = {.counts = integers(gate_.experts),
               .offsets = integers(gate_.experts + 1),
               .order = integers(experts_.numel()),
               .place = integers(experts_.numel())};
    kernels::sort_by_expert(stream_, experts_, gate_.k,
                            options_.rule == GateRule::kTop2 ? kernels::ChoiceOrder::kByChoice
                                                             : kernels::ChoiceOrder::kByToken,
                            sorted_);
    return sorted_.place;
  }

  void balance() {
    const int64_t counted = options_.rule == GateRule::kTop2 ? 1 : gate_.k;
    Tensor counts = integers(gate_.experts);
    kernels::count_choices(stream_, experts_, {.choices = gate_.k, .counted = counted}, counts);
    Tensor loss = Tensor::empty({1}, DType::kF64, stream_);
    kernels::balance_loss(stream_, {.scores = scores_, .counts = counts, .choices = counted}, loss);
    gate_.aux_loss = static_cast<float>(number_of(loss));
  }

  void drop() {
    if (options_.drop == TokenDrop::kNever) {
      gate_.capacity = *std::ranges::max_element(gate_.expert_counts);
      return;
    }
    gate_.capacity = expert_capacity(gate_.tokens, gate_.experts,
                                     options_.capacity_factor * gate_.k, options_.min_capacity);
    Tensor priorities;
    if (options_.rule == GateRule::kTopK && options_.policy == DropPolicy::kProbability) {
      priorities = weights_;  // which are scores still
    } else if (options_.rule == GateRule::kTop1 && options_.token_selection != nullptr) {
      std::vector<float> random;
      for (int64_t t = 0; t < gate_.tokens; ++t) {
        random.push_back(options_.token_selection->uniform(static_cast<uint64_t>(t)));
      }
      priorities = testing::upload(random, {gate_.tokens}, stream_);
    }
    kernels::drop_over_capacity(stream_, {.offsets = sorted_.offsets,
                                          .order = sorted_.order,
                                          .capacity = gate_.capacity,
                                          .priorities = priorities,
                                          .experts = experts_});
  }

  void weigh() {
    if (options_.rule != GateRule::kTop1) rule_.weight_sum = kernels::WeightSum::kOneClamped;
    kernels::route_weights(stream_, rule_, scores_, experts_, weights_);
    const std::vector<int32_t> places = ints_of(sort()), offsets = ints_of(sorted_.offsets);
    const std::vector<int32_t> experts = ints_of(experts_);
    const std::vector<float> weights = testing::floats_of(weights_);
    for (int64_t j = 0; j < gate_.k; ++j) {
      for (int64_t t = 0; t < gate_.tokens; ++t) {
        const auto at = static_cast<size_t>(t * gate_.k + j);
        const int32_t expert = experts[at];
        gate_.expert.push_back(expert);
        gate_.slot.push_back(expert < 0 ? 0 : places[at] - offsets[static_cast<size_t>(expert)]);
        gate_.weight.push_back(weights[at]);
      }
    }
  }

  Stream& stream_;
  const GateOptions options_;
  kernels::RouteRule rule_;
  Gate gate_;
  Tensor logits_, experts_, weights_, scores_;
  kernels::ExpertOrder sorted_;
};

void check_equal(const Gate& got, const Gate& expected) {
  REQUIRE(got.expert_counts == expected.expert_counts);
  REQUIRE(got.capacity == expected.capacity);
  REQUIRE(got.expert == expected.expert);
  REQUIRE(got.slot == expected.slot);
  REQUIRE(got.weight == expected.weight);
  REQUIRE(got.aux_loss == expected.aux_loss);
}

// Tokens to buffers of capacity and back, through gather_expert_rows() and return_expert_rows().
void check_buffers(Stream& stream, const Gate& gate) {
  constexpr int64_t kWidth = 5;
  const Rng rng(9, "buffers");
  const int64_t slots = gate.experts * gate.capacity;
  std::vector<float> hidden(static_cast<size_t>(gate.tokens * kWidth));
  std::vector<float> outputs(static_cast<size_t>(slots * kWidth));
  for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = rng.normal(i);
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = rng.normal(hidden.size() + i);
  std::vector<int32_t> order(static_cast<size_t>(slots), -1), place;
  std::vector<float> weights;
  for (int64_t t = 0; t < gate.tokens; ++t) {
    for (int64_t j = 0; j < gate.k; ++j) {
      const auto at = static_cast<size_t>(j * gate.tokens + t);
      const int64_t row =
          gate.expert[at] < 0 ? -1 : gate.expert[at] * gate.capacity + gate.slot[at];
      place.push_back(static_cast<int32_t>(row));
      weights.push_back(gate.weight[at]);
      if (row >= 0) order[static_cast<size_t>(row)] = static_cast<int32_t>(t * gate.k + j);
    }
  }
  const kernels::RowsOfTokens shape{.choices = gate.k, .columns = kWidth};
  const auto choices = static_cast<int64_t>(place.size());
  const Tensor rows = Tensor::empty({slots, kWidth}, DType::kF32, stream);
  kernels::gather_expert_rows(stream, {.shape = shape,
                                       .x = testing::upload(hidden, {gate.tokens, kWidth}, stream),
                                       .order = testing::upload(order, {slots}, stream),
                                       .rows = rows});
  REQUIRE(testing::floats_of(rows) == encode_tokens(gate, hidden, kWidth));
  const Tensor y = Tensor::empty({gate.tokens, kWidth}, DType::kF32, stream);
  kernels::return_expert_rows(stream, {.shape = shape,
                                       .rows = testing::upload(outputs, {slots, kWidth}, stream),
                                       .place = testing::upload(place, {choices}, stream),
                                       .weights = testing::upload(weights, {choices}, stream),
                                       .y = y});
  REQUIRE(testing::floats_of(y) == decode_tokens(gate, outputs, kWidth));
}

TEST_CASE("kernels gate as the golden files say, bit for bit", "[model][moe][device]") {
  TestStream s;
  const auto answer = [&](const std::string& command) {
    return testing::gate_answer(command, [&](const GateCommand& asked) {
      const Gate expected = gate(asked.logits, asked.tokens(), asked.experts, asked.options);
      const Gate got = KernelGate(s.stream, asked.logits, asked.experts, asked.options).make();
      check_equal(got, expected);
      check_buffers(s.stream, got);
      return got;
    });
  };
  testing::run_golden("moe_gate.txt", answer);
  testing::run_golden("moe_gate_conformance.txt", answer);
}

TEST_CASE("kernels gate random logits as the gate does, bit for bit", "[model][moe][device]") {
  TestStream s;
  const Rng rng(4, "gates");
  for (const int64_t experts : {3, 8, 40}) {
    for (const int64_t tokens : {1, 7, 70}) {
      std::vector<float> logits(static_cast<size_t>(tokens * experts));
      for (size_t i = 0; i < logits.size(); ++i) logits[i] = 2 * rng.normal(i);
      std::vector<uint8_t> used(static_cast<size_t>(tokens));
      for (size_t t = 0; t < used.size(); ++t) used[t] = rng.uniform(t) < 0.8F ? 1 : 0;
      for (const GateRule rule : {GateRule::kTop1, GateRule::kTop2, GateRule::kTopK}) {
        for (const double factor : {0.3, 1.25}) {
          for (const bool is_second : {false, true}) {
            GateOptions options{
                .rule = rule,
                .k = 3,
                .capacity_factor = factor,
                .min_capacity = 1,
                .policy = is_second ? DropPolicy::kPosition : DropPolicy::kProbability};
            if (is_second && rule == GateRule::kTop1) {
              options.used_tokens = used;
              options.token_selection = &rng;
            }
            INFO(tokens << " tokens, " << experts << " experts, rule " << static_cast<int>(rule)
                        << ", factor " << factor << ", " << is_second);
            const Gate expected = gate(logits, tokens, experts, options);
            const Gate got = KernelGate(s.stream, logits, experts, options).make();
            check_equal(got, expected);
            check_buffers(s.stream, got);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ds
