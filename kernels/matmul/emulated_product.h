// What tests see of the products that the emulated device is given.
#pragma once

#include <functional>
#include <mutex>

#include "kernels/matmul/gemm.h"

namespace ds::emulated {

// For its lifetime every product that a stream of the device is given is shown first, with the
// addresses that it has there. There is one at a time; streams of several threads show theirs in
// turn.
class ProductWatch {
 public:
  using Show = std::function<void(const kernels::detail::Gemm& product)>;
  explicit ProductWatch(Show show);
  ~ProductWatch();
  ProductWatch(const ProductWatch&) = delete;  // is known by its address
  ProductWatch& operator=(const ProductWatch&) = delete;

  void see(const kernels::detail::Gemm& product);

 private:
  std::mutex show_mutex_;
  const Show show_;
};

}  // namespace ds::emulated
