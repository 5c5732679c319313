// Parts of products, made by the CPU, against the products as a whole: of small whole numbers, so
// that sums are exact in any order.
#include "kernels/matmul/aligned_parts.h"

#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/test_stream.h"

namespace ds::kernels {
namespace {

using detail::aligned_parts, detail::Gemm;
using testing::TestStream;

int64_t next_pack(int64_t extent) { return (extent + 7) / 8 * 8; }

// Small whole numbers in rows that begin at packs, with room behind the last.
Tensor numbers(int64_t rows, int64_t columns, int seed, Stream& stream) {
  Tensor tensor = Tensor::empty({rows * next_pack(columns)}, DType::kF32, stream);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data<float>()[i] = static_cast<float>((i * 7 + seed) % 5) - 2;
  }
  return tensor;
}

struct Extents {
  int64_t m, n, k;
};

struct Product {
  Tensor a, b, c;
  Gemm gemm;
};

Product product(const Extents& e, int flags, Write write, Stream& s) {
  const bool ta = (flags & 1) != 0, tb = (flags & 2) != 0;
  const int64_t a_columns = ta ? e.m : e.k, b_columns = tb ? e.k : e.n;
  Product p{.a = numbers(ta ? e.k : e.m, a_columns, 1, s),
            .b = numbers(tb ? e.n : e.k, b_columns, 2, s),
            .c = numbers(e.m, e.n, 3, s),
            .gemm = {}};
  const auto transpose = [](bool yes) { return yes ? Transpose::kYes : Transpose::kNo; };
  p.gemm = {.m = e.m,
            .n = e.n,
            .k = e.k,
            .a = {p.a.raw(), DType::kF32, next_pack(a_columns), transpose(ta)},
            .b = {p.b.raw(), DType::kF32, next_pack(b_columns), transpose(tb)},
            .c = {p.c.raw(), DType::kF32, next_pack(e.n), Transpose::kNo},
            .write = write};
  return p;
}

std::vector<float> result_of(const Product& p) {
  return {p.c.data<float>(), p.c.data<float>() + p.c.numel()};
}

bool has_whole_packs(int64_t extent) { return extent % 4 == 0 || extent < 1024; }

}  // namespace

TEST_CASE("the parts of a product make the product, whatever is transposed", "[kernels]") {
  TestStream s;
  for (const Extents& e : {Extents{5, 1031, 6}, Extents{7, 12, 1029}, Extents{1027, 9, 8},
                           Extents{1025, 1026, 1027}, Extents{3, 1024, 1028}}) {
    for (int flags = 0; flags < 4; ++flags) {
      for (const Write write : {Write::kOverwrite, Write::kAccumulate}) {
        const Product whole = product(e, flags, write, s.stream);
        const Product cut = product(e, flags, write, s.stream);
        detail::gemm_packed(s.stream, whole.gemm);
        const std::vector<Gemm> parts = aligned_parts(cut.gemm);
        for (const Gemm& part : parts) detail::gemm_packed(s.stream, part);
        INFO("m " << e.m << " n " << e.n << " k " << e.k << " transposes " << flags);
        REQUIRE(result_of(cut) == result_of(whole));
        const bool ta = (flags & 1) != 0, tb = (flags & 2) != 0;
        const bool is_cut = !has_whole_packs(e.n) || (ta && !has_whole_packs(e.m)) ||
                            ((!ta || tb) && !has_whole_packs(e.k));
        REQUIRE((parts.size() > 1) == is_cut);
      }
    }
  }
}

TEST_CASE("the largest part has whole packs, and what is left over is added before it",
          "[kernels]") {
  TestStream s;
  const Product p = product({64, 16, 1030}, 0, Write::kOverwrite, s.stream);
  const std::vector<Gemm> parts = aligned_parts(p.gemm);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].k == 2);
  CHECK(parts[0].write == Write::kOverwrite);
  CHECK(parts[1].k == 1028);
  CHECK(parts[1].write == Write::kAccumulate);
  const auto head = aligned_parts(product({64, 1031, 16}, 2, Write::kOverwrite, s.stream).gemm);
  REQUIRE(head.size() == 2);
  CHECK(head[0].n == 1028);
  CHECK(head[1].n == 3);
}

TEST_CASE("a product that would gain nothing stays whole", "[kernels]") {
  TestStream s;
  const Product p = product({64, 1031, 16}, 2, Write::kOverwrite, s.stream);
  const auto stays = [&](auto change) {
    Gemm gemm = p.gemm;
    change(gemm);
    return aligned_parts(gemm).size() == 1;
  };
  CHECK_FALSE(stays([](Gemm&) {}));
  CHECK(stays([](Gemm& g) { g.activation = Activation::kRelu; }));
  CHECK(stays([](Gemm& g) { g.c.row_stride = 1031; }));
  CHECK(stays([](Gemm& g) { g.a.data = static_cast<const float*>(g.a.data) + 1; }));
  CHECK(stays([](Gemm& g) { g.n = 1000 + 3; }));
}

}  // namespace ds::kernels
