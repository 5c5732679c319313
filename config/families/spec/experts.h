// Experts in the place of a block's MLP: each token goes through some of them, which a router
// chooses (Shazeer et al., arXiv 1701.06538).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

// Which layers have experts; the others have an MLP.
struct ExpertLayers {
  int64_t every = 1;               // every so many-th layer
  std::vector<int64_t> without{};  // and none of these

  bool is_of(int64_t layer) const {
    return (layer + 1) % every == 0 && std::ranges::find(without, layer) == without.end();
  }
};

// An MLP that all tokens go through beside their experts, times the sigmoid of what a linear layer
// [1, width] makes of the token (Qwen2-MoE).
struct SharedExpertSpec {
  std::string_view name;  // "shared_expert"; a module of the same parts as an expert
  std::string_view gate;  // "shared_expert_gate"
  int64_t inner = 0;
};

// Projections of an expert, as a folder names their modules: activation(gate(x)) * up(x) goes down.
struct ExpertProjections {
  std::string_view gate, up, down;
};

// The module that the experts of a block are: a router, which is a linear layer without a bias, and
// a list of MLPs with a gate.
struct ExpertsSpec {
  std::string_view name = "mlp";      // a module of the block
  std::string_view router = "gate";   // in it, as is what follows
  std::string_view list = "experts";  // "experts.3.gate_proj.weight" is stored of each
  ExpertProjections projections{.gate = "gate_proj", .up = "up_proj", .down = "down_proj"};
  ExpertLayers layers{};
  int64_t count = 0;
  int64_t choices = 1;       // experts of a token
  int64_t inner = 0;         // width of an expert
  bool sums_to_one = false;  // the weights of a token's choices do; else they are softmax's
  std::optional<SharedExpertSpec> shared{};

  std::vector<int64_t> inner_widths() const {
    if (!shared) return {inner};
    return {inner, shared->inner};
  }
  // The module of an expert, in that of the experts.
  std::string module_of(int64_t expert) const { return fmt::format("{}.{}", list, expert); }
};

}  // namespace ds
