// cuBLASLt's products: from a product on memory to the library's descriptors, and which algorithm
// it takes, remembered by shape. Knows nothing of streams but their native handle, so that a test
// can give it a library of its own that computes on the host.
//
// The library's matrices are column-major: a row-major matrix is its transpose there, of the same
// leading dimension. So the library makes c^T = op(b)^T op(a)^T, with b as its first operand and a
// as its second. Sums are fp32 for every dtype, without TF32; parts of a sum that several blocks
// make are added in fp32 and in a fixed order, so that every run has the same bits.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>

#include "core/libraries/cublaslt.h"
#include "kernels/gemm/gemm.h"

namespace ds::kernels::detail {

// What the library does to a product, and the memory that it reads or writes for that.
struct LtEpilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;  // [n], or a bias gradient, which is written; dtype of c
  const void* aux = nullptr;   // [m, n] contiguous, dtype of c
};
// The library's epilogue that does all that is to do with the product, or nothing where it has no
// such or where operands lie or round otherwise than it has them. Its GELU is the one by tanh, and
// the only activation whose values before it are kept, or that is undone by them, in rows of whole
// 16 bytes; ReLU has a mask for that. Bias gradients are written, not added up. Its ReLU may make 0
// of NaN; that of the kernels, with which networks are trained, does not.
std::optional<LtEpilogue> epilogue_of(const Gemm& gemm);

struct LtScratch {  // of the device; not owned
  void* data = nullptr;
  size_t bytes = 0;
};

// Confined to the thread of its stream.
class CublasLtProducts {
 public:
  // The library outlives it.
  CublasLtProducts(const CublasLt& library, const LtScratch& scratch);
  ~CublasLtProducts();
  CublasLtProducts(const CublasLtProducts&) = delete;  // owns what the library made
  CublasLtProducts& operator=(const CublasLtProducts&) = delete;

  // Gives the product to the queue and returns it with what is left of its epilogue and backward:
  // nothing, or all where the library does not have all. Unsupported where it has no such product.
  Gemm multiply(const Gemm& gemm, cudaStream_t queue);

 private:
  template <class T>
  using Owned = std::unique_ptr<std::remove_pointer_t<T>, cublasStatus_t (*)(T)>;
  // m, n, k, row strides, transposes, dtypes, write, epilogue, alignments of all in memory
  using Key = std::array<int64_t, 13>;
  struct Plan;

  static Key key_of(const Gemm& gemm, const LtEpilogue& epilogue);
  Owned<cublasLtMatrixLayout_t> layout_of(int64_t rows, int64_t columns,
                                          const GemmOperand& operand) const;
  Owned<cublasLtMatmulPreference_t> preference_of(const Gemm& gemm) const;
  Plan make_plan(const Gemm& gemm, const LtEpilogue& epilogue) const;
  // Null where the library has no algorithm for it.
  const Plan* plan_for(const Gemm& gemm, const LtEpilogue& epilogue);
  void set_pointers(cublasLtMatmulDesc_t desc, const LtEpilogue& epilogue) const;
  void run(const Plan& plan, const Gemm& gemm, const LtEpilogue& epilogue,
           cudaStream_t queue) const;
  void check(cublasStatus_t status, std::string_view what) const;

  const CublasLt& library_;
  const LtScratch scratch_;
  Owned<cublasLtHandle_t> handle_;
  std::map<Key, Plan> plans_;
};

}  // namespace ds::kernels::detail
