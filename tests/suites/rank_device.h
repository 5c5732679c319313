// One rank's memory and stream on the device that the program was told to test (test_device.h).
// Programs whose tests include this take `--device`; on the CPU there is no such device.
#pragma once

#include <memory>
#include <vector>

#include "core/cuda/memory.h"
#include "core/device/tensor.h"
#include "tests/support/test_device.h"

namespace ds::testing {

inline bool has_no_device() { return test_device().device == Device::cpu(); }

struct RankDevice {
  explicit RankDevice(size_t bytes = size_t{24} << 20)
      : memory(make_device_memory(test_device().device, bytes)),
        stream({.device = test_device().device, .memory = memory.get(), .pool = &pool}) {}

  // Elements on the device, and those of a tensor there when all work before is done.
  template <class T>
  Tensor up(const std::vector<T>& elements) {
    Tensor tensor = Tensor::empty({narrow<int64_t>(elements.size())}, dtype_of<T>::value, stream);
    stream.copy(elements.data(), tensor.address(), tensor.bytes());
    return tensor;
  }
  template <class T>
  std::vector<T> down(const Tensor& tensor) {
    std::vector<T> elements(tensor.bytes() / sizeof(T));
    stream.copy(tensor.address(), elements.data(), tensor.bytes());
    return elements;
  }

  const std::unique_ptr<MemoryResource> memory;
  ThreadPool pool{1};
  Stream stream;
};

inline const bool takes_device = [] {
  test_device().is_for_choice = true;
  test_device().probe = [] {
    if (!has_no_device()) const RankDevice any(1);
  };
  return true;
}();

}  // namespace ds::testing
