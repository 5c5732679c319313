// Area sparse_attention: block layouts of model/sparse_layout.
#include <stdexcept>

#include "model/sparse_layout.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {
namespace {

void read(const Json& params, const char* key, int64_t& value) {
  value = get_or<int64_t>(params, key, value);
}

void read(const Json& params, const char* key, std::vector<int64_t>& value) {
  if (const Json* given = find(params, key)) value = list<int64_t>(*given);
}

void read(const Json& params, AttentionDirection& direction) {
  const auto name = get_optional<std::string>(params, "attention");
  if (name == "bidirectional") {
    direction = AttentionDirection::kBidirectional;
  } else if (name == "unidirectional") {
    direction = AttentionDirection::kUnidirectional;
  } else if (name) {
    throw std::invalid_argument("attention: " + *name);
  }
}

// Every key that some rule has; a rule without it ignores the key.
template <class Rule>
SparseLayoutRule read_rule(const Json& params) {
  Rule rule;
  if constexpr (requires { rule.heads; }) {
    if (get_or(params, "different_layout_per_head", false)) rule.heads = HeadLayout::kPerHead;
  }
  if constexpr (requires { rule.direction; }) read(params, rule.direction);
  if constexpr (requires { rule.global_rows; }) {
    if (get_or(params, "horizontal_global_attention", false)) rule.global_rows = GlobalRows::kOn;
  }
  if constexpr (requires { rule.num_local_blocks; }) {
    read(params, "num_local_blocks", rule.num_local_blocks);
    read(params, "num_different_global_patterns", rule.num_different_global_patterns);
  }
  if constexpr (requires { rule.num_global_blocks; }) {
    read(params, "num_global_blocks", rule.num_global_blocks);
  }
  if constexpr (requires { rule.num_random_blocks; }) {
    read(params, "num_random_blocks", rule.num_random_blocks);
  }
  if constexpr (requires { rule.num_sliding_window_blocks; }) {
    read(params, "num_sliding_window_blocks", rule.num_sliding_window_blocks);
  }
  if constexpr (requires { rule.local_window_blocks; }) {
    read(params, "local_window_blocks", rule.local_window_blocks);
  }
  if constexpr (requires { rule.global; }) {
    read(params, "global_block_indices", rule.global.first);
    if (const Json* ends = find(params, "global_block_end_indices"))
      rule.global.last = list<int64_t>(*ends);
  }
  return rule;
}

SparseLayoutRule rule_of(const std::string& mode, const Json& params) {
  if (mode == "dense") return DenseLayout{};
  if (mode == "fixed") return read_rule<FixedLayout>(params);
  if (mode == "variable") return read_rule<VariableLayout>(params);
  if (mode == "bigbird") return read_rule<BigBirdLayout>(params);
  if (mode == "bslongformer") return read_rule<BsLongformerLayout>(params);
  if (mode == "local_sliding_window") return read_rule<SlidingWindowLayout>(params);
  throw std::invalid_argument("mode: " + mode);
}

}  // namespace

std::string sparse_attention(const Json& input) {
  const Json& params = need(input, "params");
  const Rng rng(static_cast<uint64_t>(get_or<int64_t>(input, "seed", 0)), "sparse_attention");
  const BlockLayout layout = sparse_layout(
      rule_of(get<std::string>(input, "mode"), params), get<int64_t>(input, "num_heads"),
      get<int64_t>(input, "seq_len"), get_or<int64_t>(params, "block", 16), rng);
  std::vector<std::vector<std::string>> heads;
  for (int64_t head = 0; head < layout.heads(); ++head) {
    heads.emplace_back();
    for (int64_t row = 0; row < layout.blocks(); ++row) {
      heads.back().push_back(layout.row_text(head, row));
    }
  }
  return Answer().add("layout", heads).text();
}

}  // namespace ds::conform
