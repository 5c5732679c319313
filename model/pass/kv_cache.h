// Keys and values of the positions a generation has seen, for each block of a model or of a stage
// of it; one new position attends to them without recomputing the prompt.
#pragma once

#include <vector>

#include "config/families/list.h"
#include "core/device/stream.h"
#include "core/device/tensor.h"
#include "core/values/index.h"
#include "model/parallel/pipeline_cut.h"

namespace ds {

class KvCache {
 public:
  // Room for `capacity` positions of `batch` sequences of equal length, in the blocks among
  // `layers`.
  struct Room {
    int64_t batch, capacity;
  };
  KvCache(Stream& stream, const ModelDimensions& dims, DType dtype, Room room, LayerRange layers);
  KvCache(Stream& stream, const ModelDimensions& dims, DType dtype, Room room)  // in all of them
      : KvCache(stream, dims, dtype, room, {.begin = 0, .end = dims.layers + 2}) {}

  int64_t batch() const { return batch_; }
  int64_t capacity() const { return capacity_; }
  int64_t length() const { return length_; }  // positions filled in every layer
  void advance(int64_t positions);            // after a forward pass has filled them
  void clear() { length_ = 0; }

  // [batch, capacity, kv_heads * head_dim]; `block` as it is counted in the whole model, from 0.
  Tensor& keys(int64_t block) { return nth(keys_, block - first_block_); }
  Tensor& values(int64_t block) { return nth(values_, block - first_block_); }

 private:
  int64_t batch_;
  int64_t capacity_;
  int64_t length_ = 0;
  int64_t first_block_;
  std::vector<Tensor> keys_;
  std::vector<Tensor> values_;
};

}  // namespace ds
