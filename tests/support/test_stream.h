// A stream of the device that the program was told to test (test_device.h), and how tests bring
// numbers to it and back: inputs are made on the host and uploaded, results are looked at in a
// copy on the host. Programs that use this take `--device`; their cases that hold on every device
// have the tag [device].
#pragma once

#include <memory>
#include <vector>

#include "core/device/stream.h"
#include "core/device/tensor.h"
#include "core/memory/resource.h"
#include "core/tasks/thread_pool.h"
#include "tests/support/test_device.h"

namespace ds::testing {

inline bool is_on_device() { return test_device().device != Device::cpu(); }

// Confined to the thread that made it, as what is read back below.
struct TestStream {
  explicit TestStream(int threads = 2, size_t device_bytes = size_t{128} << 20,
                      Trace* trace = nullptr);
  ~TestStream();
  TestStream(const TestStream&) = delete;  // is known by its address, to wait for all of them
  TestStream& operator=(const TestStream&) = delete;
  std::unique_ptr<MemoryResource> memory;
  ThreadPool pool;
  Stream stream;
};

// What a tensor holds when all streams of this thread have done what they were given: as bytes, as
// a tensor of the CPU with memory of its own, as numbers (of any float dtype).
std::vector<std::byte> bytes_of(const Tensor& tensor);
Tensor host_copy(const Tensor& tensor);
std::vector<float> floats_of(const Tensor& tensor);

// A tensor on the stream's device with the bytes of one on the CPU, or with these elements.
Tensor upload(const Tensor& from, Stream& stream);
template <class T>
Tensor upload(const std::vector<T>& elements, const Shape& shape, Stream& stream) {
  DS_CHECK(shape.numel() == static_cast<int64_t>(elements.size()), "upload: {} elements for {}",
           elements.size(), shape.to_string());
  Tensor tensor = Tensor::empty(shape, dtype_of<T>::value, stream);
  stream.copy(elements.data(), tensor.address(), tensor.bytes());
  return tensor;
}

}  // namespace ds::testing
