// Products of the emulated device: those of the CPU, to the bit; where TF32 is allowed, of factors
// that are rounded to it. They run when the queue does, on one thread. What memory they need is
// their own, on the heap; the stream's scratch memory, which belongs to the device, they spoil as a
// library does.
#include "kernels/matmul/emulated_product.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "core/cuda/emulated.h"
#include "core/memory/resource.h"
#include "core/status/error.h"
#include "core/tasks/thread_pool.h"
#include "kernels/matmul/library_product.h"
#include "kernels/matmul/matmul.h"

namespace ds::emulated {
namespace {

std::atomic<ProductWatch*> watch = nullptr;

}  // namespace

ProductWatch::ProductWatch(Show show) : show_(std::move(show)) {
  ProductWatch* const before = watch.exchange(this);
  DS_CHECK(before == nullptr, "emulated device: its products are watched already");
}
ProductWatch::~ProductWatch() { watch = nullptr; }

void ProductWatch::see(const kernels::detail::Gemm& product) {
  const std::lock_guard lock(show_mutex_);
  show_(product);
}

}  // namespace ds::emulated

namespace ds::kernels::detail {
namespace {

constexpr int64_t kScratchBytes = int64_t{64} << 10;

// To the nearest number with 10 bits behind the point, halves away from zero, as PTX's cvt.rna.tf32
// does; NaN and infinities as they are.
float to_tf32(float value) {
  constexpr uint32_t kLost = 13, kExponent = 0x7f800000;
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & kExponent) == kExponent) return value;
  return std::bit_cast<float>((bits + (1U << (kLost - 1))) & ~((1U << kLost) - 1));
}

// A factor of `rows` x `columns` as it is stored, rounded into `room`.
GemmOperand rounded(const GemmOperand& factor, int64_t rows, int64_t columns,
                    std::vector<float>& room) {
  room.clear();
  for (int64_t row = 0; row < rows; ++row) {
    const float* const from = static_cast<const float*>(factor.data) + row * factor.row_stride;
    std::transform(from, from + columns, std::back_inserter(room), to_tf32);
  }
  GemmOperand out = factor;
  out.data = room.data();
  out.row_stride = columns;
  return out;
}

class Products {
 public:
  void multiply(Gemm product, bool allow_tf32) {
    const std::lock_guard lock(mutex_);
    if (allow_tf32 && product.a.dtype == DType::kF32) {
      const auto [m, n, k] = std::array{product.m, product.n, product.k};
      const bool ta = product.a.transpose == Transpose::kYes;
      const bool tb = product.b.transpose == Transpose::kYes;
      product.a = rounded(product.a, ta ? k : m, ta ? m : k, rounded_a_);
      product.b = rounded(product.b, tb ? n : k, tb ? k : n, rounded_b_);
    }
    gemm(stream_, product);
  }

 private:
  std::vector<float> rounded_a_, rounded_b_;
  std::mutex mutex_;  // a graph may run on another queue than the one that recorded it
  HostMemory memory_;
  ThreadPool pool_{1};
  Stream stream_{{.device = Device::cpu(), .memory = &memory_, .pool = &pool_}};
};

struct ProductsOfStream {
  std::shared_ptr<Products> products = std::make_shared<Products>();
};

}  // namespace

// Less than a GPU's library wants: tests of kernels copy all memory from launch to launch.
int64_t product_scratch_bytes() { return kScratchBytes; }
std::optional<MatmulPlace> product_place(Device /*device*/) { return std::nullopt; }

Gemm library_product(Stream& stream, const Gemm& gemm) {
  if (stream.device().is_meta()) return without_epilogue(gemm);
  if (emulated::ProductWatch* const seen = emulated::watch) seen->see(gemm);
  const std::shared_ptr<Products>& products = stream.state<ProductsOfStream>().products;
  const bool allow_tf32 = stream.state<MatmulRules>().allow_tf32;
  void* const scratch = product_scratch(stream).address();
  emulated::enqueue(stream.queue(), [products, gemm, allow_tf32, scratch] {
    std::memset(scratch, 0xff, kScratchBytes);
    products->multiply(gemm, allow_tf32);
  });
  return without_epilogue(gemm);
}

}  // namespace ds::kernels::detail
