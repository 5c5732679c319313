// The modules of a model as a tree, with what a forward pass of each costs and takes (pure): the
// paths of the parameters make the tree, and the labels of operations say whose they are. Work is
// counted as DeepSpeed's flops profiler counts it, so that reports compare: a
// multiply-add is two flops, attention is the whole square of scores, norms are 5 flops an element.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/families/list.h"

namespace ds {

struct ModuleProfile {
  std::string name;  // the last word of the path: "c_attn"
  std::string kind;  // "Linear", "GPT2Block"
  // With those of the modules inside.
  int64_t parameters = 0;
  double macs = 0;
  double flops = 0;
  double seconds = 0;
  std::vector<ModuleProfile> modules{};
};

struct ProfiledParameter {
  std::string name;  // "transformer.h.3.attn.c_attn.weight"
  int64_t numel = 0;
};

// ProfiledOp is an operation of one forward pass.
struct ProfiledOp {
  std::string label;  // a module's path, or "embedding", "head"
  std::string name;
  double flops = 0;  // as the kernel reports it
  double seconds = 0;
};

struct ProfiledModel {
  ModelConfig config;
  int64_t length = 0;       // tokens of a sample
  bool is_trained = false;  // the head computes gradients in the same pass: a third is the forward
};

ModuleProfile module_profile(const ProfiledModel& model,
                             std::span<const ProfiledParameter> parameters,
                             std::span<const ProfiledOp> ops);

}  // namespace ds
