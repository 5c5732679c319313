// Layers that work row by row, a tile of rows at a time: what lies between such a layer's input and
// output needs memory for one tile, since each is run again when its gradients come. As the tiled
// MLP of ALST, Arctic Long Sequence Training (Bekman et al., arXiv 2506.13996): with it the length
// of sequences is not limited by the width of MLPs. Gradients of weights are sums over tiles, and
// so have not the bits of a run without.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "model/pass/context.h"

namespace ds {

// y [N, out] of x [N, in], which `layer` gives of [n, in] for any n, row by row, and of weights of
// the context's store; it runs twice with a tape, so it changes nothing but by the context. Rows go
// in `tiles` runs of nearly the same length, or one for each row where these are fewer; 1: at once.
// Weights are leased once for all tiles, and each gradient is ready after the last. Of the context
// it has the second time, `unread` holds for all that the layer gives.
struct Tiling {
  std::string_view name;  // outlives the tape
  int64_t tiles = 1;
  int64_t width = 0;  // out
};
Var in_tiles(Context& context, const Tiling& tiling, Var x,
             std::function<Var(Context&, Var)> layer);

}  // namespace ds
