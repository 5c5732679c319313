// Lion, Adagrad and SGD over shards: the rules of optim/rules, one pass over chunks that fit the
// cache. And the choice among all optimizers that an engine trains with.
#pragma once

#include <memory>
#include <variant>

#include "optim/optimizer.h"
#include "optim/rules.h"

namespace ds {

// The rule's lr is replaced by Hyper::lr at every step. Slots: Lion {exp_avg}, Adagrad {sum}, SGD
// {momentum_buffer} or none without momentum. Throws ConfigError for rules that cannot be.
std::unique_ptr<Optimizer> make_lion(const LionRule& rule);
std::unique_ptr<Optimizer> make_adagrad(const AdagradRule& rule);
std::unique_ptr<Optimizer> make_sgd(const SgdRule& rule);

// An optimizer as plain options.
using OptimizerRule = std::variant<AdamOptions, LionRule, AdagradRule, SgdRule>;
std::unique_ptr<Optimizer> make_optimizer(const OptimizerRule& rule);

}  // namespace ds
