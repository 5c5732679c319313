// Which source files a smaller target layout reads (pure), for DeepSpeed checkpoints of pipe *
// tensor * data ranks. Only shrinking is possible: a target rank takes whole source files.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/deepspeed/names.h"
#include "core/values/index.h"

namespace ds::deepspeed {

// Source ranks per target place: at(pipe, tensor), in the order in which they are merged.
class RankMap {
 public:
  RankMap(int64_t pipe, int64_t tensor)
      : pipe_(pipe), tensor_(tensor), ranks_(to_size(pipe * tensor)) {}
  int64_t pipe() const { return pipe_; }
  int64_t tensor() const { return tensor_; }
  std::vector<int64_t>& at(int64_t p, int64_t t) { return ranks_.at(to_size(p * tensor_ + t)); }
  const std::vector<int64_t>& at(int64_t p, int64_t t) const {
    return ranks_.at(to_size(p * tensor_ + t));
  }

 private:
  int64_t pipe_;
  int64_t tensor_;
  std::vector<std::vector<int64_t>> ranks_;
};

// Tensor ranks merge first, within a stage; then stages. data sizes are not looked at. Throws
// Unsupported when a size grows or does not divide.
RankMap reshape_model_ranks(const Layout& source, const Layout& target);

// One map per target data rank; source file index = data * (pipe * tensor) + pipe * tensor size +
// tensor.
std::vector<RankMap> reshape_all_ranks(const Layout& source, const Layout& target);

// The rank groups of Megatron's numbering: tensor fastest, data, pipe slowest. `pipe` lists one
// group per data rank, with all tensor ranks of all stages.
struct ModelParallelGroups {
  std::vector<std::vector<int64_t>> tensor;
  std::vector<std::vector<int64_t>> pipe;
  std::vector<std::vector<int64_t>> data;
};
ModelParallelGroups model_parallel_groups(const Layout& layout);

}  // namespace ds::deepspeed
