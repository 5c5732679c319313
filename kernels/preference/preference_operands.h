// What losses of preferences take, and which of them there are, for the front of
// kernels/preference and its halves.
#pragma once

#include <cstdint>

#include "core/device/tensor.h"

namespace ds::kernels {

// The names are TRL's loss_type (Direct Preference Optimization, arXiv 2305.18290, and its kin).
// x and y are log p - reference of the chosen and the rejected text, d = x - y, s the sigmoid, e
// the label smoothing.
enum class PreferenceLoss : uint8_t {
  kSigmoid,      // -log s(beta d)
  kSigmoidNorm,  // the same, of x and y per token
  kHinge,        // max(0, 1 - beta d)
  kIpo,          // (d - 1 / (2 beta))^2, of x and y per token
  kExoPair,      // s(z) (log s(z) - log(1 - e)) + s(-z) (log s(-z) - log e), z = beta d
  kNcaPair,      // -log s(beta x) - (log s(-beta x) + log s(-beta y)) / 2
  kRobust,       // (e log s(-beta d) - (1 - e) log s(beta d)) / (1 - 2 e)
  kBcoPair,      // -log s(beta x) - log s(-beta y)
  kSppoHard,     // (x - 1 / (2 beta))^2 + (y + 1 / (2 beta))^2
  kApoZero,      // 1 - s(beta x) + s(beta y)
  kApoDown,      // s(beta x) + 1 - s(beta d)
  kDiscopop      // -log s(z) (1 - m) + e^-z m, m = s(z / tau), z = beta d; see below
};

// e^-z m of kDiscopop is at most 1 while tau is; of a larger tau it becomes infinite, as the
// formula does, if z is far enough below 0. All other losses and their derivatives are finite for
// every z up to 1e4 and more.
struct PreferenceRule {
  PreferenceLoss loss = PreferenceLoss::kSigmoid;
  double beta = 0.1;           // above 0
  double label_smoothing = 0;  // of kExoPair, between 0 and 1, and kRobust, from 0 to below 0.5
  double discopop_tau = 0.05;  // of kDiscopop, above 0
};

// Operands of preference_sums(), which reads no losses of rows that have none.
struct PreferenceSumsArgs {
  Tensor losses;   // fp32 [N], N = samples * length: -log p of each target
  Tensor targets;  // int32 [N]; negative: no loss
  Tensor sides;  // int32 [N]: > 0 a token of the chosen text, < 0 of the rejected one, 0 of neither
  Tensor sums;   // fp64 [samples, 4]: log p of chosen, log p of rejected, tokens of chosen, tokens
                 // of rejected
};

// Operands of preference_loss().
struct PreferenceLossArgs {
  PreferenceRule rule{};
  Tensor sums;            // as above (possibly summed over ranks that share a sequence)
  Tensor reference;       // fp64 [samples, 2]: log p of chosen and rejected by the reference model
  Tensor targets, sides;  // as above
  Tensor losses;          // fp32 [samples]
  Tensor figures{};       // fp32 [4, samples]: reward of chosen, of rejected (beta * (log p -
                          // reference)), whether the first is larger (1 or 0), their difference;
                          // undefined: nobody asks
  Tensor row_weights{};   // fp32 [N]: d(loss of its sample)/d(-log p of the row); 0 for rows
                          // without loss; undefined: nobody asks
};

}  // namespace ds::kernels
