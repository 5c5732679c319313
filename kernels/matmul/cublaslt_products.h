// cuBLASLt's products: from a product on memory to the library's descriptors, and which algorithm
// it takes, remembered by shape: the first that the library proposes, or the quickest of several
// (MatmulRules). Knows nothing of streams but their native handle, so that a test can give it a
// library of its own that computes on the host.
//
// The library's matrices are column-major: a row-major matrix is its transpose there, of the same
// leading dimension. So the library makes c^T = op(b)^T op(a)^T, with b as its first operand and a
// as its second. Sums are fp32 for every dtype, of factors of fp32 that are rounded to TF32 only
// where that is allowed; parts of a sum that several blocks make are added in fp32 and in a fixed
// order, so that every run with the same algorithms has the same bits.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/libraries/cublaslt.h"
#include "kernels/matmul/gemm.h"
#include "kernels/matmul/matmul.h"

namespace ds::kernels::detail {

// What the library does to a product, and the memory that it reads or writes for that.
struct LtEpilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;  // [n], or a bias gradient, which is written; dtype of c
  const void* aux = nullptr;   // [m, n] contiguous, dtype of c
};
// The library's epilogue that does all that is to do with the product, or nothing where it has no
// such or where operands lie or round otherwise than it has them. Its GELU is the one by tanh, used
// in 16 bits alone because it may approximate that, and the only activation whose values before it
// are kept, or that is undone by them, in rows of whole 16 bytes; ReLU has a mask for that. Bias
// gradients are written, not added up. Its ReLU may make 0 of NaN; that of the kernels, with which
// networks are trained, does not.
std::optional<LtEpilogue> epilogue_of(const Gemm& gemm);

struct LtScratch {  // of the device; not owned
  void* data = nullptr;
  size_t bytes = 0;
};

// Confined to the thread of its stream.
class CublasLtProducts {
 public:
  // Seconds that work takes which it is let give to the queue, while that has no other. An empty
  // one where nothing can be timed.
  using Timer = std::function<double(const std::function<void()>& give)>;

  // The library outlives it.
  CublasLtProducts(const CublasLt& library, const LtScratch& scratch,
                   const MatmulRules& rules = {});
  ~CublasLtProducts();
  CublasLtProducts(const CublasLtProducts&) = delete;  // owns what the library made
  CublasLtProducts& operator=(const CublasLtProducts&) = delete;

  // Gives the product to the queue and returns it with what is left of its epilogue and backward:
  // nothing, or all where the library does not have all or refuses to do it, of which it is asked
  // once. Unsupported where it has no such product, InternalError where it refuses a bare one.
  // The first product of a shape is made many times over where there is a choice.
  Gemm multiply(const Gemm& gemm, cudaStream_t queue, const Timer& timer = {});

 private:
  template <class T>
  using Owned = std::unique_ptr<std::remove_pointer_t<T>, cublasStatus_t (*)(T)>;
  // m, n, k, row strides, transposes, dtypes, rules, epilogue, alignments of all in memory, write
  using Key = std::array<int64_t, 14>;
  using Algorithm = cublasLtMatmulAlgo_t;
  struct Plan;
  struct Product;  // one that is asked for

  Key key_of(const Gemm& gemm, const LtEpilogue& epilogue) const;
  Owned<cublasLtMatrixLayout_t> layout_of(int64_t rows, int64_t columns,
                                          const GemmOperand& operand) const;
  Owned<cublasLtMatmulPreference_t> preference_of(const Gemm& gemm) const;
  Plan make_plan(const Gemm& gemm, const LtEpilogue& epilogue) const;
  // False where the library has no algorithm for it.
  bool run(const Product& product, const Key& key);
  bool run_fused(const Product& product);  // or where it refuses it
  // Nothing where there is none.
  std::optional<Algorithm> choose(const Plan& plan, const Key& key, const Product& product) const;
  // The library's proposals, the one that it thinks best first.
  std::vector<Algorithm> proposals(const Plan& plan, const Gemm& gemm, int most) const;
  bool can_run(const Plan& plan, const Algorithm& algorithm) const;
  const Algorithm& quickest(const Plan& plan, std::span<const Algorithm> tried,
                            const Product& product) const;
  void set_pointers(cublasLtMatmulDesc_t desc, const LtEpilogue& epilogue) const;
  cublasStatus_t give(const Plan& plan, const Algorithm& algorithm, const Product& product) const;
  void check(cublasStatus_t status, std::string_view what) const;

  const CublasLt& library_;
  const LtScratch scratch_;
  const MatmulRules rules_;
  Owned<cublasLtHandle_t> handle_;
  std::map<Key, Plan> plans_;
  std::set<Key> refused_;  // with an epilogue
};

}  // namespace ds::kernels::detail
