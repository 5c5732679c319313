// The "eigenvalue" section: the curvature of the loss, block by block. Includes no reader: whoever
// computes it needs none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/families/list.h"

namespace ds {

class Visitor;

struct EigenvalueConfig {
  bool enabled = false;
  bool verbose = false;
  int64_t max_iter = 100;
  double tol = 0.01;
  double stability = 1e-06;
  int64_t gas_boundary_resolution = 1;
  std::string layer_name = "bert.encoder.layer";
  int64_t layer_num = 0;
};
void fields(Visitor& v, EigenvalueConfig& c);

// Blocks that are asked for and that the model does not have.
std::vector<SizeConflict> eigenvalue_conflicts(const EigenvalueConfig& config,
                                               const ModelConfig& model);

}  // namespace ds
