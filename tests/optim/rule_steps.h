// One step of an optimizer over borrowed numbers: the code that trains, on examples that a person
// can follow.
#pragma once

#include <type_traits>

#include "comm/meta_comm.h"
#include "optim/rule_optimizer.h"
#include "tests/support/step_numbers.h"
#include "tests/support/test_stream.h"

namespace ds::testing {

inline OptimizerConfig config_of(const LionParams& params) {
  return {.type = OptimizerType::kLion, .lion = params};
}
inline OptimizerConfig config_of(const AdagradParams& params) {
  return {.type = OptimizerType::kAdagrad, .adagrad = params};
}
inline OptimizerConfig config_of(const SgdParams& params) {
  return {.type = OptimizerType::kSgd, .sgd = params};
}

inline void step_shard(const Optimizer& optimizer, Shard& shard, const Hyper& hyper, int64_t step,
                       Stream& stream, const Verdict& verdict = {}) {
  MetaComm alone(0, 1);
  optimizer.step({&shard, 1}, scalars_of(stream, optimizer.inputs(hyper, step), verdict), alone,
                 stream);
}

// Weights and state change in place; `state` is empty for rules that have none.
template <class Params>
void update(const Params& params, int64_t step, std::vector<float>& weight, std::vector<float> grad,
            std::vector<float>& state) {
  TestStream s;
  const auto uploaded = [&s](const std::vector<float>& values) {
    return upload(values, {static_cast<int64_t>(values.size())}, s.stream);
  };
  Shard shard;
  shard.master = uploaded(weight);
  shard.grad = uploaded(grad);
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(config_of(params));
  if (!optimizer->slots().empty()) shard.slots.push_back(uploaded(state));
  step_shard(*optimizer, shard, {.lr = params.lr}, step, s.stream);
  weight = floats_of(shard.master);
  if (!optimizer->slots().empty()) state = floats_of(shard.slots.front());
}

}  // namespace ds::testing
