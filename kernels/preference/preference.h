// Losses of preferences: of two texts that answer one question, the chosen one is to become more
// likely than the rejected one, each against what a reference model says of it, or by themselves.
// Operands that do not fit throw InternalError.
#pragma once

#include "kernels/preference/preference_operands.h"

namespace ds::kernels {

// Sums over the tokens of each sample's two texts, and of the prompt where it has targets: of
// log p, and of ones. Arithmetic is fp64, in an order that depends on the length of samples alone.
void preference_sums(Stream& stream, const PreferenceSumsArgs& args);

// The loss of each sample by its sums, and what its rows have to be multiplied by for its gradient.
// Arithmetic is fp64. A text without tokens has one, where losses are per token. Samples depend on
// each other by the number of their tokens alone, over which the likelihood of the chosen texts is
// one mean.
void preference_loss(Stream& stream, const PreferenceLossArgs& args);

}  // namespace ds::kernels
