#include "kernels/matmul/aligned_parts.h"

namespace ds::kernels::detail {
namespace {

constexpr int64_t kPackBytes = 16;
constexpr int64_t kLeastExtent = 1024;  // below it, two products take longer than a slow one

int64_t bytes_of(const GemmOperand& operand, int64_t elements) {
  return elements * static_cast<int64_t>(size_of(operand.dtype));
}

bool begins_at_packs(const GemmOperand& operand) {
  return reinterpret_cast<uintptr_t>(operand.data) % kPackBytes == 0 &&
         bytes_of(operand, operand.row_stride) % kPackBytes == 0;
}

GemmOperand moved(GemmOperand operand, int64_t rows, int64_t columns) {
  const int64_t elements = rows * operand.row_stride + columns;
  operand.data = static_cast<const std::byte*>(operand.data) + bytes_of(operand, elements);
  return operand;
}

// A factor from `first` on, in the direction in which its rows lie, or across them.
GemmOperand from(const GemmOperand& operand, int64_t first, bool along_rows) {
  return along_rows ? moved(operand, 0, first) : moved(operand, first, 0);
}

bool is_transposed(const GemmOperand& operand) { return operand.transpose == Transpose::kYes; }

Gemm part_of_rows(Gemm g, int64_t first, int64_t count) {
  g.m = count;
  g.a = from(g.a, first, is_transposed(g.a));
  g.c = moved(g.c, first, 0);
  return g;
}

Gemm part_of_columns(Gemm g, int64_t first, int64_t count) {
  g.n = count;
  g.b = from(g.b, first, !is_transposed(g.b));
  g.c = moved(g.c, 0, first);
  return g;
}

Gemm part_of_terms(Gemm g, int64_t first, int64_t count) {
  g.k = count;
  g.a = from(g.a, first, !is_transposed(g.a));
  g.b = from(g.b, first, is_transposed(g.b));
  return g;
}

// Returns the multiple of a pack in an extent, which is the extent itself if cutting is worth
// nothing.
int64_t whole_packs(int64_t extent, DType dtype) {
  const int64_t pack = kPackBytes / static_cast<int64_t>(size_of(dtype));
  return extent < kLeastExtent ? extent : extent / pack * pack;
}

// Replaces each product by two of its parts; `part(product, first, count)` makes one.
template <class Part>
void cut(std::vector<Gemm>& products, int64_t extent, int64_t whole, Part part) {
  if (whole == extent) return;
  std::vector<Gemm> out;
  for (const Gemm& product : products) {
    out.push_back(part(product, 0, whole));
    out.push_back(part(product, whole, extent - whole));
  }
  products = std::move(out);
}

void cut_terms(std::vector<Gemm>& products, int64_t extent, int64_t whole) {
  if (whole == extent) return;
  std::vector<Gemm> out;
  for (const Gemm& product : products) {
    out.push_back(part_of_terms(product, whole, extent - whole));
    out.push_back(part_of_terms(product, 0, whole));
    out.back().write = Write::kAccumulate;
  }
  products = std::move(out);
}

}  // namespace

std::vector<Gemm> aligned_parts(const Gemm& gemm) {
  std::vector<Gemm> products{gemm};
  const bool is_bare = !has_epilogue(gemm) && !has_backward(gemm);
  if (!is_bare || !begins_at_packs(gemm.a) || !begins_at_packs(gemm.b) ||
      !begins_at_packs(gemm.c)) {
    return products;
  }
  const DType dtype = gemm.a.dtype;
  const bool ta = is_transposed(gemm.a), tb = is_transposed(gemm.b);
  if (ta) cut(products, gemm.m, whole_packs(gemm.m, dtype), part_of_rows);
  cut(products, gemm.n, whole_packs(gemm.n, dtype), part_of_columns);
  if (!ta || tb) cut_terms(products, gemm.k, whole_packs(gemm.k, dtype));
  return products;
}

}  // namespace ds::kernels::detail
