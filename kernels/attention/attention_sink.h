// Sinks of attention (Xiao et al., arXiv 2309.17453, as learned by gpt-oss): a score of each head
// that every query weighs beside those of its keys, and whose weight goes nowhere. It is added to
// what attention has made without it, by any kernel: with the log-sum-exp s of a row and the sink
// c, s' = log(e^s + e^c), and the output is multiplied by e^(s - s'). The backward pass of
// attention then reads s' and the new output, and gives the gradients of queries, keys and values
// as it is.
#pragma once

#include "kernels/attention/attention.h"

namespace ds::kernels {

// sinks [heads], y [batch*T, heads*D], of float dtypes, log_sum_exp fp32 [batch, heads, T]. A row
// that has seen no key stays zeros.
void add_sinks(Stream& stream, const AttentionShape& shape, const Tensor& sinks, Tensor& y,
               Tensor& log_sum_exp);

// terms fp32 [batch*T, heads], of which the sum of a column is the gradient of a sink: -e^(c - s')
// delta, with delta of attention_delta() (attention_part.h) and s' of add_sinks().
void sink_terms(Stream& stream, const AttentionShape& shape, const Tensor& sinks,
                const Tensor& log_sum_exp, const Tensor& delta, Tensor& terms);

}  // namespace ds::kernels
