#include "model/pass/kv_cache.h"

#include <algorithm>

namespace ds {

KvCache::KvCache(Stream& stream, const ModelDimensions& dims, DType dtype, Room room,
                 LayerRange layers)
    : batch_(room.batch),
      capacity_(room.capacity),
      first_block_(std::max<int64_t>(0, layers.begin - 1)) {
  const auto [batch, capacity] = room;
  DS_CHECK(batch > 0 && capacity > 0 && capacity <= dims.positions,
           "kv cache: {} sequences of {} positions; the model has {} positions", batch, capacity,
           dims.positions);
  const Shape shape{batch, capacity, dims.kv_heads * dims.head_dim};
  for (int64_t block = first_block_; block < dims.layers && layers.has(block + 1); ++block) {
    keys_.push_back(Tensor::empty(shape, dtype, stream));
    values_.push_back(Tensor::empty(shape, dtype, stream));
  }
}

void KvCache::advance(int64_t positions) {
  DS_CHECK(length_ + positions <= capacity_, "kv cache: {} positions more than its {}",
           length_ + positions - capacity_, capacity_);
  length_ += positions;
}

}  // namespace ds
