#include "core/device/tensor.h"

#include "core/values/index.h"

namespace ds {
namespace {

struct Buffer {
  Buffer(size_t size, MemoryResource& from, MemoryTag as)
      : bytes(size), memory(from), tag(as), data(from.allocate(size, as)) {}
  ~Buffer() { memory.deallocate(data, bytes, tag); }
  Buffer(const Buffer&) = delete;  // owns bytes of a resource
  Buffer& operator=(const Buffer&) = delete;

  const size_t bytes;
  MemoryResource& memory;
  const MemoryTag tag;
  void* const data;
};

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype, Stream& stream, MemoryTag tag) {
  const auto numel = to_size(shape.numel());
  size_t bytes = 0;
  DS_CHECK(!__builtin_mul_overflow(numel, size_of(dtype), &bytes), "tensor: {} overflows",
           shape.to_string());
  auto buffer = std::make_shared<Buffer>(bytes, stream.memory(), tag);
  void* data = buffer->data;
  return borrow(data, shape, dtype, stream.device(), std::move(buffer));
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Stream& stream, MemoryTag tag) {
  Tensor tensor = empty(shape, dtype, stream, tag);
  stream.fill_bytes(tensor.address(), 0, tensor.bytes());
  return tensor;
}

Tensor Tensor::borrow(void* data, const Shape& shape, DType dtype, Device device,
                      std::shared_ptr<void> owner) {
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.numel_ = shape.numel();
  tensor.dtype_ = dtype;
  tensor.device_ = device;
  tensor.data_ = static_cast<std::byte*>(data);
  tensor.owner_ = std::move(owner);
  return tensor;
}

void* Tensor::raw() const {
  DS_CHECK(!device_.is_meta(), "tensor: a meta tensor has no bytes");
  DS_CHECK(device_.kind == Device::Kind::kCpu, "tensor: the host cannot read memory of {}",
           device_.to_string());
  return data_;
}

Tensor Tensor::narrow(int64_t offset, int64_t numel) const {
  // Not offset + numel, which may leave 64 bits.
  DS_CHECK(offset >= 0 && numel >= 0 && offset <= numel_ && numel <= numel_ - offset,
           "narrow: {} elements from element {} of a tensor of {} elements", numel, offset, numel_);
  Tensor view = *this;
  view.shape_ = Shape{numel};
  view.numel_ = numel;
  view.data_ = data_ + to_size(offset) * size_of(dtype_);
  return view;
}

Tensor Tensor::joined_with(const Tensor& next) const {
  const bool same_buffer = owner_ != nullptr && owner_ == next.owner_;
  if (!same_buffer || dtype_ != next.dtype_ || next.data_ != data_ + bytes()) return {};
  Tensor view = *this;
  view.numel_ = numel_ + next.numel_;
  view.shape_ = Shape{view.numel_};
  return view;
}

Tensor Tensor::reshape(const Shape& shape) const {
  DS_CHECK(shape.numel() == numel_, "reshape: {} to {}", shape_.to_string(), shape.to_string());
  Tensor view = *this;
  view.shape_ = shape;
  return view;
}

Tensor Tensor::reinterpret(DType dtype) const {
  DS_CHECK(bytes() % size_of(dtype) == 0, "reinterpret: {} bytes as {}", bytes(), name_of(dtype));
  Tensor view = *this;
  view.numel_ = static_cast<int64_t>(bytes() / size_of(dtype));
  view.shape_ = Shape{view.numel_};
  view.dtype_ = dtype;
  return view;
}

}  // namespace ds
