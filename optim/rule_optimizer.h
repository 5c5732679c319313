// Lion, Adagrad and SGD over shards: the rules of optim/rules, one pass over chunks that fit the
// cache.
#pragma once

#include <memory>

#include "optim/optimizer.h"
#include "optim/rules.h"

namespace ds {

// The rule's lr is replaced by Hyper::lr at every step. Slots: Lion {exp_avg}, Adagrad {sum}, SGD
// {momentum_buffer} or none without momentum. Throws ConfigError for rules that cannot be.
std::unique_ptr<Optimizer> make_lion(const LionRule& rule);
std::unique_ptr<Optimizer> make_adagrad(const AdagradRule& rule);
std::unique_ptr<Optimizer> make_sgd(const SgdRule& rule);

}  // namespace ds
