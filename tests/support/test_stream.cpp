// See test_stream.h.
#include "tests/support/test_stream.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "core/cuda/memory.h"
#include "core/device/dispatch.h"

namespace ds::testing {

namespace {

std::vector<Stream*>& live_streams() {
  static thread_local std::vector<Stream*> streams;
  return streams;
}

const bool is_for_choice = [] {
  test_device().is_for_choice = true;
  test_device().probe = [] { const TestStream any; };
  return true;
}();

std::unique_ptr<MemoryResource> memory_of(Device device, size_t device_bytes) {
  if (device == Device::cpu()) return std::make_unique<HostMemory>();
  return make_device_memory(device, device_bytes);
}

void read_back(const Tensor& tensor, void* to) {
  if (tensor.bytes() == 0) return;
  if (tensor.device() == Device::cpu()) {
    std::memcpy(to, tensor.raw(), tensor.bytes());
    return;
  }
  for (Stream* const stream : live_streams()) stream->synchronize();
  DS_CHECK(!live_streams().empty(), "tests: a tensor of {} has outlived all streams",
           tensor.device().to_string());
  live_streams().back()->copy(tensor.address(), to, tensor.bytes());
  live_streams().back()->synchronize();
}

}  // namespace

TestStream::TestStream(int threads, size_t device_bytes, Trace* trace)
    : memory(memory_of(test_device().device, device_bytes)),
      pool(threads),
      stream(
          {.device = test_device().device, .memory = memory.get(), .pool = &pool, .trace = trace}) {
  live_streams().push_back(&stream);
}

TestStream::~TestStream() { std::erase(live_streams(), &stream); }

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  read_back(tensor, bytes.data());
  return bytes;
}

Tensor host_copy(const Tensor& tensor) {
  auto bytes = std::make_shared<std::vector<std::byte>>(bytes_of(tensor));
  if (bytes->empty()) bytes->resize(1);  // an empty tensor is defined, too
  void* const data = bytes->data();
  return Tensor::borrow(data, tensor.shape(), tensor.dtype(), Device::cpu(), std::move(bytes));
}

std::vector<float> floats_of(const Tensor& tensor) {
  return on_float(tensor.dtype(), [&]<class T>() {
    std::vector<T> elements(to_size(tensor.numel()));
    read_back(tensor, elements.data());
    std::vector<float> values(elements.size());
    std::ranges::transform(elements, values.begin(), [](T v) { return static_cast<float>(v); });
    return values;
  });
}

Tensor upload(const Tensor& from, Stream& stream) {
  Tensor tensor = Tensor::empty(from.shape(), from.dtype(), stream);
  stream.copy(from.raw(), tensor.address(), tensor.bytes());
  return tensor;
}

}  // namespace ds::testing
