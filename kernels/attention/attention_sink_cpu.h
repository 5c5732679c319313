// The CPU half of kernels/attention_sink. Operands have been checked.
#pragma once

#include "kernels/attention/attention.h"

namespace ds::kernels::detail {

void add_sinks_cpu(Stream& stream, const AttentionShape& shape, const Tensor& sinks, Tensor& y,
                   Tensor& log_sum_exp);
void sink_terms_cpu(Stream& stream, const AttentionShape& shape, const Tensor& sinks,
                    const Tensor& log_sum_exp, const Tensor& delta, Tensor& terms);

}  // namespace ds::kernels::detail
