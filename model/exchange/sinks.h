// Sinks of attention as parameters: what they make of an output, and their gradients
// (kernels/attention/attention_sink.h).
#pragma once

#include "kernels/attention/attention.h"
#include "model/pass/context.h"

namespace ds {

// Adds the sinks [heads] to what attention of these rows and heads gave. kNoParam: there are none.
void apply_sinks(const Context& context, const kernels::AttentionShape& shape, ParamId sinks,
                 Tensor& y, Tensor& log_sum_exp);

// delta: of attention_delta(); log_sum_exp: once the sinks are added.
struct SinkRows {
  const Tensor& log_sum_exp;
  const Tensor& delta;
};
void give_sink_gradient(Stream& stream, ParameterStore& store, const kernels::AttentionShape& shape,
                        ParamId sinks, const SinkRows& rows);

}  // namespace ds
