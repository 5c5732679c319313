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
  kDiscopop,     // -log s(z) (1 - m) + e^-z m, m = s(z / tau), z = beta d; see below
  // Those from here on have no reference: x and y are log p. The likelihood of the chosen text is
  // learnt beside the preference; n is -log p of its tokens, as one mean over a micro-batch.
  kOrpo,  // n - beta log s(o(x) - o(y)), o(v) = v - log(1 - e^v), of x and y per token; n is of the
          // prompt, too (ORPO, arXiv 2403.07691)
  kCpo,   // c(beta d) + alpha n, c(z) = -(1 - e) log s(z) - e log s(-z) (CPO, arXiv 2401.08417)
  kSimpo  // c(beta d - gamma) + alpha n, of x and y per token (SimPO, arXiv 2405.14734)
};
constexpr bool has_reference(PreferenceLoss loss) { return loss < PreferenceLoss::kOrpo; }
// Whether tokens of the prompt of the chosen text are learnt, too.
constexpr bool learns_prompt(PreferenceLoss loss) { return loss == PreferenceLoss::kOrpo; }

// The side of a target that is a token of the prompt of the chosen text.
inline constexpr int32_t kPromptSide = 2;

// e^-z m of kDiscopop is at most 1 while tau is; of a larger tau it becomes infinite, as the
// formula does, if z is far enough below 0. All other losses and their derivatives are finite for
// every z up to 1e4 and more.
struct PreferenceRule {
  PreferenceLoss loss = PreferenceLoss::kSigmoid;
  double beta = 0.1;  // above 0
  // Between 0 and 1 of kExoPair, from 0 to below 0.5 of kRobust, to below 1 of kCpo and kSimpo.
  double label_smoothing = 0;
  double discopop_tau = 0.05;  // of kDiscopop, above 0
  double cpo_alpha = 1;        // of kCpo and kSimpo, 0 or more
  double simpo_gamma = 0.5;    // of kSimpo
};

// Operands of preference_sums(), which reads no losses of rows that have none.
struct PreferenceSumsArgs {
  Tensor losses;   // fp32 [N], N = samples * length: -log p of each target
  Tensor targets;  // int32 [N]; negative: no loss
  // int32 [N]: > 0 a token of the chosen text, or kPromptSide of its prompt, < 0 of the rejected
  // text, 0 of neither.
  Tensor sides;
  // fp64 [samples, 6]: log p of chosen, log p of rejected, tokens of chosen, tokens of rejected,
  // log p of the prompt, tokens of it.
  Tensor sums;
};

// Operands of preference_loss().
struct PreferenceLossArgs {
  PreferenceRule rule{};
  Tensor sums;            // as above (possibly summed over ranks that share a sequence)
  Tensor reference{};     // fp64 [samples, 2]: log p of chosen and rejected by the reference model;
                          // undefined where the loss has none
  Tensor targets, sides;  // as above
  Tensor losses;          // fp32 [samples]
  Tensor figures{};       // fp32 [4, samples]: reward of chosen, of rejected (beta * (log p -
                          // reference), or without a reference beta x and beta y), whether the
                          // first is larger (1 or 0), their difference; undefined: nobody asks
  Tensor row_weights{};   // fp32 [N]: d(sum of losses)/d(-log p of the row); 0 for rows without
                          // loss; undefined: nobody asks
};

}  // namespace ds::kernels
