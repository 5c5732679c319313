// Recomputation (activation checkpointing): a segment of the model keeps its inputs alone and is
// run again when its gradients come, so that what lies inside of it needs memory once, for the
// segment that is being differentiated. Training Deep Nets with Sublinear Memory Cost (Chen et al.,
// 2016); of parts of a block: Reducing Activation Recomputation in Large Transformer Models
// (Korthikanti et al., 2022). Gradients have the bits of a run without it: masks of dropout follow
// from counters, and the kernels are the same.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/pass/context.h"

namespace ds {

// How long the segments of a step took, summed over its micro-steps, by the place they are in.
struct SegmentTimes {
  struct Seconds {
    double forward = 0;
    double backward = 0;  // with running the segment again
  };
  std::map<std::string, Seconds, std::less<>> places;
};

// Computes outputs from inputs in whatever context it is given. Runs twice, so it changes nothing
// but by the context; what it refers to outlives the tape. Undefined inputs stay undefined. The
// second time nobody reads the outputs, so that the functions that give them, called with
// end_of_segment(), need not make them: the last product of an MLP is half of its work.
using Segment = std::function<std::vector<Var>(Context&, std::vector<Var>)>;

// The segment's outputs. With a tape its inputs are kept, and one node that runs it again; without
// one it just runs. `name` labels the node and outlives the tape.
std::vector<Var> recompute(Context& context, std::string_view name, std::vector<Var> inputs,
                           Segment segment);

// The same of a part of a block with one input and one output, where the context asks for that
// part; the segment as it is otherwise. The MLP's output is the block's; attention's is read in it.
Var recompute_part(Context& context, RecomputedPart part, Var input,
                   std::function<Var(Context&, Var)> segment);

}  // namespace ds
