// A cuBLASLt of tests, opened in place of the real one: it holds callers to what the library's
// documentation asks of descriptors and operands, and computes column-major products on the host,
// one element after the other in fp64. Whatever it finds wrong is CUBLAS_STATUS_INVALID_VALUE, with
// the reason in fake_cublaslt_reason(). It has the functions of our table and no others. It offers
// as many algorithms as it is told to, which differ in what they take of a clock of its own.
#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/values/dtype.h"

namespace {

std::string reason;
int live = 0;          // descriptors and handles that nobody has destroyed
int heuristics = 0;    // calls
uint32_t refused = 0;  // epilogues for which there is no algorithm
// What is answered where a product with an epilogue is asked for, and where it is given.
cublasStatus_t of_choice = CUBLAS_STATUS_SUCCESS, of_product = CUBLAS_STATUS_SUCCESS;
int products = 0;              // calls
int32_t handle_memory;         // a handle is its address
std::vector<double> costs{0};  // seconds of each algorithm; negative: it fails when it is run
double now = 0;                // seconds
int last_run = -1;             // the algorithm

cublasStatus_t wrong(const std::string& why) {
  reason = why;
  return CUBLAS_STATUS_INVALID_VALUE;
}
#define REQUIRE_OR_REFUSE(condition, why) \
  if (!(condition)) return wrong(why)

struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t ld;
};

struct Operation {
  bool tf32 = false;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t bias_type = -1;  // that of D
  const void* aux = nullptr;
  int64_t aux_ld = 0;
  int32_t aux_type = -1;  // that of D
};

struct Preference {
  uint64_t workspace = 0;
  uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
};

// What an algorithm was chosen for.
struct Algorithm {
  uint64_t workspace;
  uint32_t epilogue, alignment[4];
  uint16_t number, tf32;
  uint64_t magic;
};
constexpr uint64_t kMagic = 0x6c74206f6620666b;
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

Layout& of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<Layout*>(layout); }
Operation& of(cublasLtMatmulDesc_t desc) { return *reinterpret_cast<Operation*>(desc); }
Preference& of(cublasLtMatmulPreference_t made) { return *reinterpret_cast<Preference*>(made); }

template <class T>
cublasStatus_t put(T& into, const void* from, size_t bytes) {
  REQUIRE_OR_REFUSE(bytes == sizeof(T), "an attribute of " + std::to_string(bytes) +
                                            " bytes, expected " + std::to_string(sizeof(T)));
  std::memcpy(&into, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t destroy(T* made) {
  delete made;
  --live;
  return CUBLAS_STATUS_SUCCESS;
}

size_t size_of(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }

double read(const void* data, cudaDataType type, int64_t at) {
  switch (type) {
    case CUDA_R_16BF:
      return static_cast<float>(static_cast<const ds::BF16*>(data)[at]);
    case CUDA_R_16F:
      return static_cast<float>(static_cast<const ds::F16*>(data)[at]);
    default:
      return static_cast<const float*>(data)[at];
  }
}

void write(void* data, cudaDataType type, int64_t at, double value) {
  const auto rounded = static_cast<float>(value);
  switch (type) {
    case CUDA_R_16BF:
      static_cast<ds::BF16*>(data)[at] = ds::BF16(rounded);
      return;
    case CUDA_R_16F:
      static_cast<ds::F16*>(data)[at] = ds::F16(rounded);
      return;
    default:
      static_cast<float*>(data)[at] = rounded;
  }
}

bool is_aligned(const void* data, size_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

bool has(uint32_t epilogue, uint32_t part) { return (epilogue & part) == part; }
bool has_bias(uint32_t epilogue) { return has(epilogue, CUBLASLT_EPILOGUE_BIAS); }
bool sums_a(uint32_t epilogue) { return epilogue == CUBLASLT_EPILOGUE_BGRADA; }
bool sums_b(uint32_t epilogue) { return epilogue == CUBLASLT_EPILOGUE_BGRADB; }
bool is_slope(uint32_t epilogue) { return epilogue == CUBLASLT_EPILOGUE_DGELU; }
bool has_aux(uint32_t epilogue) { return has(epilogue, 128); }

cublasStatus_t check_types(const Operation& o, const Layout& a, const Layout& b, const Layout& c,
                           const Layout& d) {
  const auto known = {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F};
  REQUIRE_OR_REFUSE(std::ranges::find(known, a.type) != known.end(), "a type that nobody knows");
  REQUIRE_OR_REFUSE(a.type == b.type, "A and B differ in type");
  REQUIRE_OR_REFUSE(c.type == d.type && c.ld == d.ld, "C and D differ");
  REQUIRE_OR_REFUSE(d.type == a.type || d.type == CUDA_R_32F, "the type of D");
  REQUIRE_OR_REFUSE(!o.tf32 || a.type == CUDA_R_32F, "TF32 of other types than fp32");
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_extents(const Operation& o, const Layout& a, const Layout& b,
                             const Layout& d) {
  for (const Layout& layout : {a, b, d}) {
    REQUIRE_OR_REFUSE(layout.ld >= static_cast<int64_t>(layout.rows),
                      "a leading dimension of less than the rows");
    REQUIRE_OR_REFUSE(layout.rows > 0 && layout.columns > 0, "a matrix of nothing");
  }
  const bool ta = o.transpose_a == CUBLAS_OP_T, tb = o.transpose_b == CUBLAS_OP_T;
  REQUIRE_OR_REFUSE((ta ? a.columns : a.rows) == d.rows, "rows of op(A) and D");
  REQUIRE_OR_REFUSE((tb ? b.rows : b.columns) == d.columns, "columns of op(B) and D");
  REQUIRE_OR_REFUSE((ta ? a.rows : a.columns) == (tb ? b.columns : b.rows), "the inner extent");
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_epilogue(const Operation& o, const Layout& d) {
  const auto known = {
      CUBLASLT_EPILOGUE_DEFAULT,   CUBLASLT_EPILOGUE_BIAS,          CUBLASLT_EPILOGUE_RELU,
      CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU,          CUBLASLT_EPILOGUE_GELU_BIAS,
      CUBLASLT_EPILOGUE_GELU_AUX,  CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
      CUBLASLT_EPILOGUE_BGRADA,    CUBLASLT_EPILOGUE_BGRADB};
  REQUIRE_OR_REFUSE(std::ranges::find(known, o.epilogue) != known.end(), "an unknown epilogue");
  if (has_bias(o.epilogue) || sums_a(o.epilogue) || sums_b(o.epilogue)) {
    REQUIRE_OR_REFUSE(o.bias != nullptr, "an epilogue with a bias that is nowhere");
    REQUIRE_OR_REFUSE(o.bias_type < 0 || o.bias_type == d.type, "a bias of another type than D");
    REQUIRE_OR_REFUSE(is_aligned(o.bias, 16), "a bias that is not aligned");
  }
  if (has_aux(o.epilogue)) {
    REQUIRE_OR_REFUSE(o.aux != nullptr, "an epilogue with an AUX that is nowhere");
    REQUIRE_OR_REFUSE(o.aux_ld % 8 == 0 && o.aux_ld >= static_cast<int64_t>(d.rows),
                      "the leading dimension of AUX");
    REQUIRE_OR_REFUSE(o.aux_type < 0 || o.aux_type == d.type, "an AUX of another type than D");
    REQUIRE_OR_REFUSE(is_aligned(o.aux, 16), "an AUX that is not aligned");
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_all(const Operation& o, const Layout& a, const Layout& b, const Layout& c,
                         const Layout& d) {
  if (const auto status = check_types(o, a, b, c, d); status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (const auto status = check_extents(o, a, b, d); status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  return check_epilogue(o, d);
}

bool is_fused(const Operation& o) { return o.epilogue != CUBLASLT_EPILOGUE_DEFAULT; }

struct Operands {
  const Operation& o;
  const Layout &a, &b, &d;
  const void *a_data, *b_data;

  double of_a(int64_t i, int64_t k) const {
    return read(a_data, a.type, o.transpose_a == CUBLAS_OP_T ? k + i * a.ld : i + k * a.ld);
  }
  double of_b(int64_t k, int64_t j) const {
    return read(b_data, b.type, o.transpose_b == CUBLAS_OP_T ? j + k * b.ld : k + j * b.ld);
  }
  // TF32 has 10 bits behind the point, fp32 has 23; these numbers are finite.
  double factor(double value) const {
    if (!o.tf32) return value;
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    return std::bit_cast<float>((bits + 0x1000) & 0xffffe000);
  }
  int64_t depth() const {
    return static_cast<int64_t>(o.transpose_a == CUBLAS_OP_T ? a.rows : a.columns);
  }
};

double gelu_gate(double x) { return std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)); }
double gelu(double x) { return 0.5 * x * (1 + gelu_gate(x)); }
double gelu_slope(double x) {
  const double gate = gelu_gate(x);
  const double inner = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  return 0.5 * (1 + gate) + 0.5 * x * (1 - gate * gate) * inner;
}

// What becomes of element (i, j) of D.
double finished(const Operands& p, int64_t i, int64_t j, double value) {
  const Operation& o = p.o;
  if (has_bias(o.epilogue)) value += read(o.bias, p.d.type, i);
  const int64_t at = i + j * o.aux_ld;
  if (is_slope(o.epilogue)) return value * gelu_slope(read(o.aux, p.d.type, at));
  if (has(o.epilogue, CUBLASLT_EPILOGUE_GELU_AUX)) {
    write(const_cast<void*>(o.aux), p.d.type, at, value);
  }
  if (has(o.epilogue, CUBLASLT_EPILOGUE_GELU)) return gelu(value);
  if (has(o.epilogue, CUBLASLT_EPILOGUE_RELU)) return std::max(value, 0.0);
  return value;
}

// Sums over the inner extent of op(A), for each row of D, or of op(B), for each column.
void write_sums(const Operands& p) {
  const bool of_a = sums_a(p.o.epilogue);
  if (!of_a && !sums_b(p.o.epilogue)) return;
  const auto count = static_cast<int64_t>(of_a ? p.d.rows : p.d.columns);
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < p.depth(); ++k) sum += of_a ? p.of_a(i, k) : p.of_b(k, i);
    write(const_cast<void*>(p.o.bias), p.d.type, i, sum);
  }
}

}  // namespace

extern "C" {

// What tests ask.
const char* fake_cublaslt_reason() { return reason.c_str(); }
int fake_cublaslt_live() { return live; }
int fake_cublaslt_heuristics() { return heuristics; }
// From now on there is no algorithm for products with these bits in their epilogue.
void fake_cublaslt_refuse(uint32_t epilogues) { refused = epilogues; }
// From now on products with an epilogue are answered so, where an algorithm is chosen and where
// they are given.
void fake_cublaslt_answer(int choice, int product) {
  of_choice = static_cast<cublasStatus_t>(choice);
  of_product = static_cast<cublasStatus_t>(product);
}
int fake_cublaslt_products() { return products; }
// From now on there are so many algorithms, which take so many seconds.
void fake_cublaslt_offer(const double* seconds, int count) {
  costs.assign(seconds, seconds + count);
}
double fake_cublaslt_now() { return now; }
int fake_cublaslt_last_run() { return last_run; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  ++live;
  *handle = reinterpret_cast<cublasLtHandle_t>(&handle_memory);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  --live;
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE ? reason.c_str() : "another status";
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  ++live;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(&of(layout));
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t,
                                                cublasLtMatrixLayoutAttribute_t, const void*,
                                                size_t) {
  return wrong("an attribute of a layout that nobody has set before");
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  const bool tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  REQUIRE_OR_REFUSE((tf32 || compute == CUBLAS_COMPUTE_32F) && scale == CUDA_R_32F,
                    "sums of another type than fp32");
  ++live;
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation{.tf32 = tf32});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(&of(desc)); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  Operation& o = of(desc);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return put(o.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return put(o.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return put(o.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return put(o.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return put(o.bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return put(o.aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return put(o.aux_ld, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return put(o.aux_type, value, bytes);
    default:
      return wrong("an attribute of a product that nobody knows");
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  ++live;
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(&of(preference));
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  Preference& p = of(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return put(p.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return put(p.reduction, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return put(p.alignment[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return put(p.alignment[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return put(p.alignment[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return put(p.alignment[3], value, bytes);
    default:
      return wrong("an attribute of a preference that nobody knows");
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t found[], int* count) {
  ++heuristics;
  *count = 0;
  const Operation& o = of(desc);
  const auto status = check_all(o, of(a), of(b), of(c), of(d));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  REQUIRE_OR_REFUSE(wanted > 0, "no algorithm is wanted");
  if (is_fused(o) && of_choice != CUBLAS_STATUS_SUCCESS) return of_choice;
  if ((o.epilogue & refused) != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  const Preference& p = of(preference);
  Algorithm made{.workspace = p.workspace,
                 .epilogue = o.epilogue,
                 .alignment = {},
                 .number = 0,
                 .tf32 = o.tf32,
                 .magic = kMagic};
  std::ranges::copy(p.alignment, made.alignment);
  *count = std::min(wanted, static_cast<int>(costs.size()));
  for (int i = 0; i < *count; ++i) {
    made.number = static_cast<uint16_t>(i);
    found[i] = {};
    std::memcpy(&found[i].algo, &made, sizeof made);
    found[i].workspaceSize = p.workspace;
    found[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const Operation& o = of(desc);
  const auto status = check_all(o, of(a), of(b), of(c), of(d));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  Algorithm chosen{};
  std::memcpy(&chosen, algorithm, sizeof chosen);
  REQUIRE_OR_REFUSE(chosen.magic == kMagic && chosen.number < costs.size(), "no algorithm");
  REQUIRE_OR_REFUSE(chosen.epilogue == o.epilogue, "an algorithm for another epilogue");
  *result = {};
  result->workspaceSize = chosen.workspace;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a_data, cublasLtMatrixLayout_t a, const void* b_data,
                              cublasLtMatrixLayout_t b, const void* beta, const void* c_data,
                              cublasLtMatrixLayout_t c, void* d_data, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t) {
  ++products;
  const Operation& o = of(desc);
  const auto status = check_all(o, of(a), of(b), of(c), of(d));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (is_fused(o) && of_product != CUBLAS_STATUS_SUCCESS) return of_product;
  Algorithm chosen{};
  std::memcpy(&chosen, algorithm, sizeof chosen);
  REQUIRE_OR_REFUSE(chosen.magic == kMagic && chosen.number < costs.size(), "no algorithm");
  REQUIRE_OR_REFUSE(chosen.epilogue == o.epilogue && chosen.tf32 == o.tf32,
                    "an algorithm for another epilogue or type");
  if (costs[chosen.number] < 0) return CUBLAS_STATUS_EXECUTION_FAILED;
  now += costs[chosen.number];
  last_run = chosen.number;
  REQUIRE_OR_REFUSE(
      workspace_bytes >= chosen.workspace && (workspace != nullptr || chosen.workspace == 0),
      "too small a workspace");
  const void* const data[] = {a_data, b_data, c_data, d_data};
  for (size_t i = 0; i < 4; ++i) {
    REQUIRE_OR_REFUSE(data[i] != nullptr && is_aligned(data[i], chosen.alignment[i]),
                      "an operand that is less aligned than was said");
  }
  const float by_product = *static_cast<const float*>(alpha);
  const float by_c = *static_cast<const float*>(beta);
  const Operands p{o, of(a), of(b), of(d), a_data, b_data};
  for (int64_t j = 0; j < static_cast<int64_t>(p.d.columns); ++j) {
    for (int64_t i = 0; i < static_cast<int64_t>(p.d.rows); ++i) {
      double sum = 0;
      for (int64_t k = 0; k < p.depth(); ++k) {
        sum += p.factor(p.of_a(i, k)) * p.factor(p.of_b(k, j));
      }
      sum *= by_product;
      const int64_t at = i + j * p.d.ld;
      if (by_c != 0) sum += by_c * read(c_data, p.d.type, at);
      write(d_data, p.d.type, at, finished(p, i, j, sum));
    }
  }
  write_sums(p);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
