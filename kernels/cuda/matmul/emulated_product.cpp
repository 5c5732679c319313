// Products of the emulated device: those of the CPU, to the bit. They run when the queue does, on
// one thread and with scratch memory of their own, because the stream's belongs to the device.
#include <memory>
#include <mutex>

#include "core/cuda/emulated.h"
#include "core/memory/resource.h"
#include "core/thread_pool.h"
#include "kernels/cuda/matmul/library_product.h"

namespace ds::kernels::detail {
namespace {

class Products {
 public:
  void multiply(const Gemm& product) {
    const std::lock_guard lock(mutex_);
    gemm(stream_, product);
  }

 private:
  std::mutex mutex_;  // a graph may run on another queue than the one that recorded it
  HostMemory memory_;
  ThreadPool pool_{1};
  Stream stream_{{.device = Device::cpu(), .memory = &memory_, .pool = &pool_}};
};

struct ProductsOfStream {
  std::shared_ptr<Products> products = std::make_shared<Products>();
};

}  // namespace

// The threads' own, on the heap.
int64_t product_scratch_bytes() { return 0; }

Gemm library_product(Stream& stream, const Gemm& gemm) {
  if (stream.device().is_meta()) return without_epilogue(gemm);
  const std::shared_ptr<Products>& products = stream.state<ProductsOfStream>().products;
  emulated::enqueue(stream, [products, gemm] { products->multiply(gemm); });
  return without_epilogue(gemm);
}

}  // namespace ds::kernels::detail
