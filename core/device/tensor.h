// Tensor: a shared handle on a buffer, with shape and dtype; contiguous, row-major. It knows
// nothing of gradients, names or sharding. Copies share the bytes.
#pragma once

#include <memory>

#include "core/device/stream.h"
#include "core/status/error.h"
#include "core/values/device.h"
#include "core/values/dtype.h"
#include "core/values/index.h"
#include "core/values/shape.h"

namespace ds {

class Tensor {
 public:
  Tensor() = default;  // undefined: defined() is false

  // Contents undefined. Allocated from stream.memory() under `tag`; freed when the last handle
  // goes.
  static Tensor empty(const Shape& shape, DType dtype, Stream& stream,
                      MemoryTag tag = MemoryTag::kActivations);
  static Tensor zeros(const Shape& shape, DType dtype, Stream& stream,
                      MemoryTag tag = MemoryTag::kActivations);
  // Borrows bytes that the caller keeps alive (or that `owner` does).
  static Tensor borrow(void* data, const Shape& shape, DType dtype, Device device = Device::cpu(),
                       std::shared_ptr<void> owner = nullptr);

  bool defined() const { return data_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t numel() const { return numel_; }
  size_t bytes() const { return to_size(numel_) * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  bool is_meta() const { return device_.is_meta(); }

  // First element; throws when T is not the dtype or the host cannot read the tensor's memory.
  template <class T>
  T* data() const {
    DS_CHECK(dtype_of<T>::value == dtype_, "tensor: data<{}>() of a {} tensor",
             name_of(dtype_of<T>::value), name_of(dtype_));
    return static_cast<T*>(raw());
  }
  void* raw() const;  // throws where data() does
  // Wherever it is: for streams and devices. On meta nothing may be read or written there.
  void* address() const { return data_; }

  // A flat view of `numel` elements from element `offset`; shares the bytes.
  Tensor narrow(int64_t offset, int64_t numel) const;
  Tensor reshape(const Shape& shape) const;  // same numel; shares the bytes
  Tensor reinterpret(DType dtype) const;     // the same bytes as a flat tensor of another dtype
  // A flat view of this tensor and of `next`, where `next` begins at this one's end in the same
  // buffer; undefined where it does not. Neighbours by address alone, of two buffers, do not count:
  // where a resource puts buffers is chance.
  Tensor joined_with(const Tensor& next) const;
  bool aliases(const Tensor& other) const { return data_ != nullptr && data_ == other.data_; }
  // No other handle shares these bytes, so they may be overwritten in place. Exact because a tensor
  // is confined to one thread; false for borrowed bytes without an owner.
  bool is_sole_owner() const { return owner_.use_count() == 1; }

 private:
  Shape shape_;
  int64_t numel_ = 0;
  DType dtype_ = DType::kF32;
  Device device_;
  std::byte* data_ = nullptr;
  std::shared_ptr<void> owner_;
};

}  // namespace ds
