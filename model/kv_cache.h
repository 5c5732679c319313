// Keys and values of the positions a generation has seen, per layer; one new position attends to
// them without recomputing the prompt.
#pragma once

#include <vector>

#include "config/sections/model_families.h"
#include "core/index.h"
#include "core/stream.h"
#include "core/tensor.h"

namespace ds {

class KvCache {
 public:
  // Room for `capacity` positions of `batch` sequences of equal length.
  KvCache(Stream& stream, const ModelDimensions& dims, DType dtype, int64_t batch,
          int64_t capacity);

  int64_t batch() const { return batch_; }
  int64_t capacity() const { return capacity_; }
  int64_t length() const { return length_; }  // positions filled in every layer
  void advance(int64_t positions);            // after a forward pass has filled them
  void clear() { length_ = 0; }

  // [batch, capacity, kv_heads * head_dim]
  Tensor& keys(int64_t layer) { return nth(keys_, layer); }
  Tensor& values(int64_t layer) { return nth(values_, layer); }

 private:
  int64_t batch_;
  int64_t capacity_;
  int64_t length_ = 0;
  std::vector<Tensor> keys_;
  std::vector<Tensor> values_;
};

}  // namespace ds
