// Area moe_gating: model/parallel/moe_gate.
#include <algorithm>
#include <stdexcept>

#include "model/parallel/moe_gate.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {
namespace {

GateRule rule_of(const Json& input, int k) {
  const std::string name = get_or<std::string>(input, "fn",
                                               k == 1   ? "top1"
                                               : k == 2 ? "top2"
                                                        : "topk");
  if (name == "top1") return GateRule::kTop1;
  if (name == "top2") return GateRule::kTop2;
  if (name == "topk") return GateRule::kTopK;
  throw std::invalid_argument("fn: " + name);
}

DropPolicy policy_of(const Json& input) {
  const std::string name = get_or<std::string>(input, "drop_policy", "probs");
  if (name == "probs") return DropPolicy::kProbability;
  if (name == "position") return DropPolicy::kPosition;
  throw std::invalid_argument("drop_policy: " + name);
}

Gate gate_of(const Json& input) {
  const Json& logits = array(need(input, "logits"));
  const int k = get_or<int>(input, "k", 1);
  std::vector<uint8_t> used;
  if (const Json* given = find(input, "used_token")) used = list<uint8_t>(*given);
  return gate(
      flatten<float>(logits), logits.Size(), logits.Empty() ? 0 : array(logits[0]).Size(),
      {.rule = rule_of(input, k),
       .k = k,
       .capacity_factor = get_or<double>(input, "capacity_factor", 1.0),
       .min_capacity = get_or<int64_t>(input, "min_capacity", 8),
       .drop = get_or(input, "drop_tokens", true) ? TokenDrop::kOverCapacity : TokenDrop::kNever,
       .policy = policy_of(input),
       .used_tokens = used});
}

// [k, tokens] as k lists.
template <class T>
std::vector<std::vector<T>> by_choice(const Gate& gate, const std::vector<T>& flat) {
  std::vector<std::vector<T>> lists;
  for (auto at = flat.begin(); at != flat.end(); at += gate.tokens) {
    lists.emplace_back(at, at + gate.tokens);
  }
  return lists;
}

std::string routes(const Gate& gate) {
  std::vector<int64_t> kept(static_cast<size_t>(gate.experts), 0);
  for (const int32_t expert : gate.expert) {
    if (expert >= 0) ++kept[static_cast<size_t>(expert)];
  }
  return Answer()
      .add("l_aux", gate.aux_loss)
      .add("capacity", gate.capacity)
      .add("exp_counts", gate.expert_counts)
      .add("indices", by_choice(gate, gate.expert))
      .add("locations", by_choice(gate, gate.slot))
      .add("gates", by_choice(gate, gate.weight))
      .add("kept", kept)
      .text();
}

std::string dispatch(const Gate& gate) {
  std::vector<std::vector<int64_t>> mask;
  for (size_t i = 0; i < gate.expert.size(); ++i) {
    if (gate.expert[i] < 0) continue;
    mask.push_back({static_cast<int64_t>(i) % gate.tokens, gate.expert[i], gate.slot[i]});
  }
  std::sort(mask.begin(), mask.end());
  return Answer().add("dispatch", mask).text();
}

std::string encode_decode(const Json& input) {
  const Json& hidden = array(need(input, "hidden"));
  const int64_t width = hidden.Empty() ? 0 : array(hidden[0]).Size();
  const Gate gate{.k = static_cast<int>(array(need(input, "indices")).Size()),
                  .tokens = hidden.Size(),
                  .experts = get<int64_t>(input, "experts"),
                  .capacity = get<int64_t>(input, "capacity"),
                  .expert = flatten<int32_t>(need(input, "indices")),
                  .slot = flatten<int32_t>(need(input, "locations")),
                  .weight = flatten<float>(need(input, "gates"))};
  const std::vector<float> output = flatten<float>(need(input, "expert_output"));
  return Answer()
      .add("encoded", encode_tokens(gate, flatten<float>(hidden), width))
      .add("decoded", decode_tokens(gate, output, width))
      .text();
}

}  // namespace

std::string moe_gating(const Json& input) {
  const std::string op = get<std::string>(input, "op");
  if (op == "gate") return routes(gate_of(input));
  if (op == "dispatch") return dispatch(gate_of(input));
  if (op == "encode_decode") return encode_decode(input);
  if (op == "capacity") {
    const int64_t capacity =
        expert_capacity(get<int64_t>(input, "tokens"), get<int64_t>(input, "experts"),
                        get<double>(input, "capacity_factor"), get<int64_t>(input, "min_capacity"));
    return Answer().add("capacity", capacity).text();
  }
  throw std::invalid_argument("op: " + op);
}

}  // namespace ds::conform
