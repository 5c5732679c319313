// Ring attention (Liu et al., arXiv 2310.01889) over ranks that share sequences, each of which has
// a piece from the front and one from the back of every sequence (sequence_rows.h): queries stay,
// keys and values pass from rank to rank, and what queries have seen is merged by log-sum-exp
// (kernels/attention/attention_part.h). A pass moves the keys and values of a rank P - 1 times; the
// backward moves them again, and as often their gradients in fp32.
#pragma once

#include "kernels/attention/attention.h"
#include "model/pass/context.h"

namespace ds {

// qkv [batch * length, packed()] -> [batch * length, heads * D]; the shape of `here` is what this
// rank has of the sequences, with all heads that it has, and its mask is that of whole sequences.
// sinks: of model/exchange/sinks.h, or kNoParam. Collective over Parallel::group(Axis::kRing).
Var ring_attention(Context& context, const kernels::AttentionSpec& here, const Var& qkv,
                   ParamId sinks = kNoParam);

}  // namespace ds
