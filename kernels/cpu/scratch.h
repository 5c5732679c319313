// A thread's scratch floats for blocked kernels: on a cache-line border, kept between calls, only
// growing.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace ds::kernels {

class Scratch {
 public:
  // At least `floats` of them, uninitialised; valid until the next call.
  float* reserve(size_t floats) {
    constexpr size_t kLine = 64 / sizeof(float);
    if (count_ < floats) {
      const size_t rounded = (floats + kLine - 1) / kLine * kLine;
      auto* const fresh = static_cast<float*>(std::aligned_alloc(64, rounded * sizeof(float)));
      if (fresh == nullptr) throw std::bad_alloc();
      floats_.reset(fresh);
      count_ = rounded;
    }
    return floats_.get();
  }

 private:
  struct Free {
    void operator()(float* floats) const { std::free(floats); }
  };
  std::unique_ptr<float[], Free> floats_;
  size_t count_ = 0;
};

}  // namespace ds::kernels
