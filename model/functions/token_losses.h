// The losses of tokens, with a teacher or without: what the two functions of functions.h share.
#pragma once

#include "model/functions/functions.h"

namespace ds {

// As linear_cross_entropy(). teacher: whose logits are learnt from, too; null: no one's.
Tensor token_losses(Context& context, Var x, const LogitsSpec& spec, const LossRows& rows,
                    float grad_scale, const kernels::TeacherHead* teacher = nullptr);

}  // namespace ds
