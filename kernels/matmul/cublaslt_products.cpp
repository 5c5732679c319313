#include "kernels/matmul/cublaslt_products.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::kernels::detail {
namespace {

constexpr uintptr_t kAuxBytes = 16;  // what lies beside c has to begin at a multiple of

cudaDataType_t lt_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      throw InternalError(fmt::format("matmul: {} is no float type", name_of(dtype)));
  }
}

cublasOperation_t lt_operation(const GemmOperand& operand) {
  return operand.transpose == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

// The largest power of two that divides the address, up to what algorithms ask for.
uint32_t alignment_of(const void* data) {
  constexpr uintptr_t kMost = 256;
  const auto address = reinterpret_cast<uintptr_t>(data) | kMost;
  return static_cast<uint32_t>(address & (~address + 1));
}

bool is_aux(const void* data) { return reinterpret_cast<uintptr_t>(data) % kAuxBytes == 0; }

// [m, n] beside c.
bool is_aux_matrix(const Gemm& g, const void* data) { return g.n % 8 == 0 && is_aux(data); }

// The library may make its GELU of an approximate tanh, whose error 16 bits hide and fp32 does not.
bool has_gelu(const Gemm& g) { return g.c.dtype != DType::kF32; }

// Returns the epilogue of a product of a backward pass; nothing if the library has none for it.
std::optional<LtEpilogue> backward_of(const Gemm& g) {
  const bool undoes = g.activation_backward != Activation::kNone;
  const bool sums = g.bias_gradient != nullptr;
  if (has_epilogue(g) || (undoes && sums)) return std::nullopt;
  if (undoes) {
    if (g.activation_backward != Activation::kGeluTanh || !has_gelu(g) ||
        !is_aux_matrix(g, g.activation_input)) {
      return std::nullopt;
    }
    return LtEpilogue{.kind = CUBLASLT_EPILOGUE_DGELU, .aux = g.activation_input};
  }
  if (g.bias_gradient_dtype != g.c.dtype || g.write_bias_gradient != Write::kOverwrite ||
      !is_aux(g.bias_gradient)) {
    return std::nullopt;
  }
  // Our b is the library's A.
  const bool of_b = g.bias_gradient_of == Factor::kB;
  return LtEpilogue{.kind = of_b ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_BGRADB,
                    .bias = g.bias_gradient};
}

// What the library answered to a call.
struct LtError final : InternalError {
  using InternalError::InternalError;
};

// All that is done with a product is done.
Gemm bare(const Gemm& gemm) { return without_backward(without_epilogue(gemm)); }

}  // namespace

std::optional<LtEpilogue> epilogue_of(const Gemm& g) {
  if (has_backward(g)) return backward_of(g);
  const bool biased = g.bias != nullptr;
  if (biased && (g.bias_dtype != g.c.dtype || !is_aux(g.bias))) return std::nullopt;
  const bool kept = g.pre_activation != nullptr;
  const auto with_bias = [&](cublasLtEpilogue_t without, cublasLtEpilogue_t with) {
    return LtEpilogue{biased ? with : without, g.bias, g.pre_activation};
  };
  if (g.activation == Activation::kNone && !kept) {
    return with_bias(CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS);
  }
  if (g.activation == Activation::kRelu && !kept) {
    return with_bias(CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS);
  }
  if (g.activation != Activation::kGeluTanh || !has_gelu(g)) return std::nullopt;
  if (!kept) return with_bias(CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS);
  if (!is_aux_matrix(g, g.pre_activation)) return std::nullopt;
  return with_bias(CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
}

// What the library needs to know of products of one kind.
struct CublasLtProducts::Plan {
  Owned<cublasLtMatmulDesc_t> desc;
  Owned<cublasLtMatrixLayout_t> first, second, result;  // b, a and c
  std::optional<Algorithm> algorithm;                   // nothing where the library has none
};

struct CublasLtProducts::Product {
  const Gemm& gemm;
  const LtEpilogue& epilogue;
  cudaStream_t queue;
  const Timer& timer;
};

CublasLtProducts::CublasLtProducts(const CublasLt& library, const LtScratch& scratch,
                                   const MatmulRules& rules)
    : library_(library),
      scratch_(scratch),
      rules_(rules),
      handle_(nullptr, library.cublasLtDestroy) {
  cublasLtHandle_t handle = nullptr;
  check(library_.cublasLtCreate(&handle), "create");
  handle_.reset(handle);
}

CublasLtProducts::~CublasLtProducts() = default;

void CublasLtProducts::check(cublasStatus_t status, std::string_view what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw LtError(
      fmt::format("matmul: cuBLASLt, {}: {}", what, library_.cublasLtGetStatusString(status)));
}

CublasLtProducts::Key CublasLtProducts::key_of(const Gemm& g, const LtEpilogue& epilogue) const {
  // Flags and dtypes are of a few bits each.
  const auto small =
      (static_cast<int64_t>(g.a.transpose) << 0) | (static_cast<int64_t>(g.b.transpose) << 1) |
      (static_cast<int64_t>(rules_.allow_tf32) << 2) | (static_cast<int64_t>(g.a.dtype) << 8) |
      (static_cast<int64_t>(g.c.dtype) << 16);
  return {g.m,
          g.n,
          g.k,
          g.a.row_stride,
          g.b.row_stride,
          g.c.row_stride,
          small,
          static_cast<int64_t>(epilogue.kind),
          alignment_of(g.a.data),
          alignment_of(g.b.data),
          alignment_of(g.c.data),
          alignment_of(epilogue.bias),
          alignment_of(epilogue.aux),
          static_cast<int64_t>(g.write)};
}

CublasLtProducts::Owned<cublasLtMatrixLayout_t> CublasLtProducts::layout_of(
    int64_t rows, int64_t columns, const GemmOperand& operand) const {
  cublasLtMatrixLayout_t layout = nullptr;
  check(library_.cublasLtMatrixLayoutCreate(&layout, lt_type(operand.dtype),
                                            static_cast<uint64_t>(columns),
                                            static_cast<uint64_t>(rows), operand.row_stride),
        "layout of a matrix");
  return {layout, library_.cublasLtMatrixLayoutDestroy};
}

CublasLtProducts::Owned<cublasLtMatmulPreference_t> CublasLtProducts::preference_of(
    const Gemm& g) const {
  cublasLtMatmulPreference_t made = nullptr;
  check(library_.cublasLtMatmulPreferenceCreate(&made), "preference");
  Owned<cublasLtMatmulPreference_t> preference(made, library_.cublasLtMatmulPreferenceDestroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(library_.cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value),
          "attribute of a preference");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{scratch_.bytes});
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(g.b.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(g.a.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(g.c.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(g.c.data));
  return preference;
}

void CublasLtProducts::set_pointers(cublasLtMatmulDesc_t desc, const LtEpilogue& epilogue) const {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const void* pointer) {
    if (pointer == nullptr) return;
    check(library_.cublasLtMatmulDescSetAttribute(desc, attribute, &pointer, sizeof(void*)),
          "pointer of an epilogue");
  };
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.aux);
}

CublasLtProducts::Plan CublasLtProducts::make_plan(const Gemm& g,
                                                   const LtEpilogue& epilogue) const {
  cublasLtMatmulDesc_t made = nullptr;
  const bool as_tf32 = rules_.allow_tf32 && g.a.dtype == DType::kF32;
  check(library_.cublasLtMatmulDescCreate(
            &made, as_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "product");
  const bool ta = g.a.transpose == Transpose::kYes, tb = g.b.transpose == Transpose::kYes;
  Plan plan{.desc = {made, library_.cublasLtMatmulDescDestroy},
            .first = layout_of(tb ? g.n : g.k, tb ? g.k : g.n, g.b),
            .second = layout_of(ta ? g.k : g.m, ta ? g.m : g.k, g.a),
            .result = layout_of(g.m, g.n, g.c),
            .algorithm = {}};
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(library_.cublasLtMatmulDescSetAttribute(made, attribute, &value, sizeof value),
          "attribute of a product");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, static_cast<int32_t>(lt_operation(g.b)));
  set(CUBLASLT_MATMUL_DESC_TRANSB, static_cast<int32_t>(lt_operation(g.a)));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue.kind));
  if (epilogue.bias != nullptr) {
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(lt_type(g.c.dtype)));
  }
  if (epilogue.aux != nullptr) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, g.n);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, static_cast<int32_t>(lt_type(g.c.dtype)));
  }
  set_pointers(made, epilogue);
  return plan;
}

std::vector<CublasLtProducts::Algorithm> CublasLtProducts::proposals(const Plan& plan,
                                                                     const Gemm& g,
                                                                     int most) const {
  std::vector<cublasLtMatmulHeuristicResult_t> found(to_size(most));
  int count = 0;
  const cublasStatus_t status = library_.cublasLtMatmulAlgoGetHeuristic(
      handle_.get(), plan.desc.get(), plan.first.get(), plan.second.get(), plan.result.get(),
      plan.result.get(), preference_of(g).get(), most, found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check(status, "choice of an algorithm");
  std::vector<Algorithm> out;
  for (int i = 0; i < count; ++i) {
    if (nth(found, i).state == CUBLAS_STATUS_SUCCESS) out.push_back(nth(found, i).algo);
  }
  return out;
}

bool CublasLtProducts::can_run(const Plan& plan, const Algorithm& algorithm) const {
  cublasLtMatmulHeuristicResult_t said{};
  const cublasStatus_t status = library_.cublasLtMatmulAlgoCheck(
      handle_.get(), plan.desc.get(), plan.first.get(), plan.second.get(), plan.result.get(),
      plan.result.get(), &algorithm, &said);
  return status == CUBLAS_STATUS_SUCCESS && said.workspaceSize <= scratch_.bytes;
}

// In turn, so that a GPU that changes its clock does so for all; the first round warms up and says
// how often each is made in the others. A result that is overwritten may be made again and again.
const CublasLtProducts::Algorithm& CublasLtProducts::quickest(const Plan& plan,
                                                              std::span<const Algorithm> tried,
                                                              const Product& product) const {
  constexpr int kRounds = 4, kMostTimes = 50;
  constexpr double kLongEnough = 1e-3;  // seconds, beside which it is little to give and to wait
  struct Trial {
    int times = 1;
    double seconds = std::numeric_limits<double>::infinity();
  };
  std::vector<Trial> trials(tried.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < tried.size(); ++i) {
      Trial& trial = trials[i];
      bool ran = true;
      const double seconds = product.timer([&] {
        for (int time = 0; time < trial.times && ran; ++time) {
          ran = give(plan, tried[i], product) == CUBLAS_STATUS_SUCCESS;
        }
      });
      if (!ran) continue;  // it cannot be the quickest
      if (round == 0) {
        trial.times = static_cast<int>(std::clamp(kLongEnough / seconds, 1.0, 1.0 * kMostTimes));
      } else {
        trial.seconds = std::min(trial.seconds, seconds / trial.times);
      }
    }
  }
  const auto best = std::ranges::min_element(trials, {}, &Trial::seconds);
  return tried[to_size(best - trials.begin())];
}

std::optional<CublasLtProducts::Algorithm> CublasLtProducts::choose(const Plan& plan,
                                                                    const Key& key,
                                                                    const Product& product) const {
  constexpr int kTried = 8;
  using Kept = MatmulChoices::Algorithm;
  const auto shape =
      fmt::format("{}", fmt::join(std::span(key).first(key.size() - 1), ","));  // all but the write
  if (rules_.choices != nullptr) {
    const std::optional<Kept> kept = rules_.choices->find(shape);
    if (kept && can_run(plan, std::bit_cast<Algorithm>(*kept))) {
      return std::bit_cast<Algorithm>(*kept);
    }
  }
  const bool tries =
      rules_.choices != nullptr && product.timer && product.gemm.write == Write::kOverwrite;
  const std::vector<Algorithm> found = proposals(plan, product.gemm, tries ? kTried : 1);
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) return found.front();
  const Algorithm best = quickest(plan, found, product);
  const auto kept =
      std::bit_cast<Algorithm>(rules_.choices->keep(shape, std::bit_cast<Kept>(best)));
  return can_run(plan, kept) ? kept : best;
}

cublasStatus_t CublasLtProducts::give(const Plan& plan, const Algorithm& algorithm,
                                      const Product& product) const {
  const Gemm& g = product.gemm;
  const float alpha = 1.0F;
  const float beta = g.write == Write::kAccumulate ? 1.0F : 0.0F;
  auto* const c = const_cast<void*>(g.c.data);
  return library_.cublasLtMatmul(handle_.get(), plan.desc.get(), &alpha, g.b.data, plan.first.get(),
                                 g.a.data, plan.second.get(), &beta, c, plan.result.get(), c,
                                 plan.result.get(), &algorithm, scratch_.data, scratch_.bytes,
                                 product.queue);
}

// At whatever call the library refuses it and with whatever status, nothing has been given yet. It
// would refuse it again.
bool CublasLtProducts::run_fused(const Product& product) {
  const Key key = key_of(product.gemm, product.epilogue);
  if (refused_.contains(key)) return false;
  try {
    return run(product, key);
  } catch (const LtError&) {
    refused_.insert(key);
    plans_.erase(key);
    return false;
  }
}

bool CublasLtProducts::run(const Product& product, const Key& key) {
  const Gemm& g = product.gemm;
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    Plan made = make_plan(g, product.epilogue);
    made.algorithm = choose(made, key, product);
    found = plans_.emplace(key, std::move(made)).first;
  }
  const Plan& plan = found->second;
  if (!plan.algorithm) return false;
  set_pointers(plan.desc.get(), product.epilogue);
  check(give(plan, *plan.algorithm, product),
        fmt::format("{} x {} x {} of {}", g.m, g.n, g.k, name_of(g.a.dtype)));
  return true;
}

Gemm CublasLtProducts::multiply(const Gemm& gemm, cudaStream_t queue, const Timer& timer) {
  if (gemm.m == 0 || gemm.n == 0) return without_epilogue(gemm);  // there may be sums to clear
  if (const auto fused = epilogue_of(gemm)) {
    if (run_fused({gemm, *fused, queue, timer})) return bare(gemm);
  }
  const LtEpilogue none;
  if (!run({gemm, none, queue, timer}, key_of(gemm, none))) {
    throw Unsupported(fmt::format(
        "matmul: cuBLASLt has no algorithm for {} x {} x {} of {} -> {} (row strides {}, {}, {})",
        gemm.m, gemm.n, gemm.k, name_of(gemm.a.dtype), name_of(gemm.c.dtype), gemm.a.row_stride,
        gemm.b.row_stride, gemm.c.row_stride));
  }
  return gemm;
}

}  // namespace ds::kernels::detail
