// Matrix products against the fp64 reference: dtypes, transposes, strides, odd shapes, epilogues.
#include "kernels/matmul/matmul.h"

#include "kernels/reduce/reduce.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

struct Case {
  int64_t m, n, k;
  Transpose ta = Transpose::kNo, tb = Transpose::kNo;
};

struct Operands {
  Tensor a, b;
  MatmulArgs args;
  Values expected;
};

Operands operands(const Case& c, DType dtype, DType c_dtype, Stream& stream) {
  const bool ta = c.ta == Transpose::kYes;
  const bool tb = c.tb == Transpose::kYes;
  Operands o;
  o.a = reference::random_tensor(ta ? Shape{c.k, c.m} : Shape{c.m, c.k}, dtype, 1, stream);
  o.b = reference::random_tensor(tb ? Shape{c.n, c.k} : Shape{c.k, c.n}, dtype, 2, stream);
  o.args.a = matrix(o.a, o.a.shape()[0], o.a.shape()[1]);
  o.args.b = matrix(o.b, o.b.shape()[0], o.b.shape()[1]);
  o.args.c = matrix(reference::random_tensor({c.m, c.n}, c_dtype, 3, stream), c.m, c.n);
  o.args.transpose_a = c.ta;
  o.args.transpose_b = c.tb;
  o.expected = reference::matmul(values_of(o.a), values_of(o.b), c.m, c.n, c.k, ta, tb);
  return o;
}

const std::vector<Case> kCases{{1, 1, 1},     {3, 5, 7},   {17, 33, 65},   {1, 130, 64},
                               {1, 1031, 83}, {130, 1, 9}, {64, 192, 128}, {129, 257, 70}};

}  // namespace

TEST_CASE("products match the reference for every dtype, transpose and odd shape",
          "[kernels][device]") {
  TestStream s;
  for (const DType dtype : reference::float_dtypes()) {
    for (Case c : kCases) {
      for (const int flags : {0, 1, 2, 3}) {
        c.ta = (flags & 1) != 0 ? Transpose::kYes : Transpose::kNo;
        c.tb = (flags & 2) != 0 ? Transpose::kYes : Transpose::kNo;
        for (const DType c_dtype : {dtype, DType::kF32}) {
          Operands o = operands(c, dtype, c_dtype, s.stream);
          INFO(name_of(dtype) << " -> " << name_of(c_dtype) << " m " << c.m << " n " << c.n << " k "
                              << c.k << " transposes " << flags);
          const Values before = values_of(o.args.c.tensor);
          matmul(s.stream, o.args);
          REQUIRE(error_of(o.args.c.tensor, o.expected) < reference::tolerance_of(c_dtype));
          o.args.write = Write::kAccumulate;
          Tensor c_tensor = tensor_of(before, {c.m, c.n}, c_dtype, s.stream);
          o.args.c = matrix(c_tensor, c.m, c.n);
          matmul(s.stream, o.args);
          Values sum = o.expected;
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += before[i];
          REQUIRE(error_of(c_tensor, sum) < 2 * reference::tolerance_of(c_dtype));
        }
      }
    }
  }
}

TEST_CASE("a product works on column ranges inside larger tensors", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : reference::float_dtypes()) {
    const Tensor a = reference::random_tensor({9, 40}, dtype, 1, s.stream);
    const Tensor b = reference::random_tensor({30, 50}, dtype, 2, s.stream);
    Tensor c = tensor_of(Values(9 * 60, 7.0), {9, 60}, dtype, s.stream);
    matmul(s.stream, {.a = columns_of(matrix(a, 9, 40), 6, 30),
                      .b = columns_of(matrix(b, 30, 50), 3, 21),
                      .c = columns_of(matrix(c, 9, 60), 20, 21)});
    const Values va = values_of(a);
    const Values vb = values_of(b);
    const Values vc = values_of(c);
    for (size_t i = 0; i < 9; ++i) {
      for (size_t j = 0; j < 60; ++j) {
        double expected = 7;
        if (j >= 20 && j < 41) {
          expected = 0;
          for (size_t l = 0; l < 30; ++l) expected += va[i * 40 + 6 + l] * vb[l * 50 + 3 + j - 20];
        }
        REQUIRE(vc[i * 60 + j] == Approx(expected).margin(30 * reference::tolerance_of(dtype)));
      }
    }
  }
}

TEST_CASE("products with an odd vocabulary, as a head has them, match the reference",
          "[kernels][device]") {
  TestStream s;
  constexpr int64_t kRows = 24, kWidth = 16, kWords = 1031, kStride = 1088;
  const auto yes = Transpose::kYes;
  for (const DType dtype : reference::float_dtypes()) {
    const Tensor x = reference::random_tensor({kRows, kWidth}, dtype, 1, s.stream);
    const Tensor table = reference::random_tensor({kWords, kWidth}, dtype, 2, s.stream);
    const Tensor room = reference::random_tensor({kRows, kStride}, dtype, 3, s.stream);
    const MatrixView logits{room, kRows, kWords, kStride, 0};
    const auto in_room = [&] {
      const Values all = values_of(room);
      Values out;
      for (int64_t row = 0; row < kRows; ++row) {
        out.insert(out.end(), all.begin() + row * kStride, all.begin() + row * kStride + kWords);
      }
      return out;
    };
    const Values factor = in_room();
    Tensor dx = Tensor::empty({kRows, kWidth}, dtype, s.stream);
    Tensor dtable = Tensor::empty({kWords, kWidth}, dtype, s.stream);
    matmul(s.stream,
           {.a = logits, .b = matrix(table, kWords, kWidth), .c = matrix(dx, kRows, kWidth)});
    matmul(s.stream, {.a = logits,
                      .b = matrix(x, kRows, kWidth),
                      .c = matrix(dtable, kWords, kWidth),
                      .transpose_a = yes});
    const double allowed = 2 * reference::tolerance_of(dtype);
    const Values vx = values_of(x), vt = values_of(table);
    INFO(name_of(dtype));
    CHECK(error_of(dx, reference::matmul(factor, vt, kRows, kWidth, kWords, false, false)) <
          allowed);
    CHECK(error_of(dtable, reference::matmul(factor, vx, kWords, kWidth, kRows, true, false)) <
          allowed);
    matmul(s.stream, {.a = matrix(x, kRows, kWidth),
                      .b = matrix(table, kWords, kWidth),
                      .c = logits,
                      .transpose_b = yes});
    const Values expected = reference::matmul(vx, vt, kRows, kWords, kWidth, false, true);
    CHECK(error_of(tensor_of(in_room(), {kRows, kWords}, dtype, s.stream), expected) < allowed);
  }
}

TEST_CASE("bias and activation are applied in the store, and the value before it is kept",
          "[kernels][device]") {
  TestStream s;
  const Case c{37, 70, 48, Transpose::kNo, Transpose::kYes};
  for (const DType dtype : reference::float_dtypes()) {
    for (const Activation kind : {Activation::kNone, Activation::kGeluTanh, Activation::kGeluExact,
                                  Activation::kSilu, Activation::kRelu}) {
      Operands o = operands(c, dtype, dtype, s.stream);
      o.args.bias = reference::random_tensor({c.n}, dtype, 5, s.stream);
      o.args.activation = kind;
      const Values bias = values_of(o.args.bias);
      Values before = o.expected;
      for (size_t i = 0; i < before.size(); ++i) before[i] += bias[i % bias.size()];
      Values after = before;
      for (double& v : after) v = reference::activation(kind, v);
      INFO(name_of(dtype) << " activation " << static_cast<int>(kind));
      matmul(s.stream, o.args);
      REQUIRE(error_of(o.args.c.tensor, after) < 2 * reference::tolerance_of(dtype));
      o.args.pre_activation = Tensor::empty({c.m, c.n}, dtype, s.stream);
      matmul(s.stream, o.args);
      REQUIRE(error_of(o.args.pre_activation, before) < reference::tolerance_of(dtype));
      REQUIRE(error_of(o.args.c.tensor, after) < 2 * reference::tolerance_of(dtype));
    }
  }
}

TEST_CASE("a product of a backward undoes an activation", "[kernels][device]") {
  TestStream s;
  const Case c{19, 40, 31, Transpose::kNo, Transpose::kYes};
  for (const DType dtype : reference::float_dtypes()) {
    for (const Activation kind :
         {Activation::kGeluTanh, Activation::kGeluExact, Activation::kSilu, Activation::kRelu}) {
      Operands o = operands(c, dtype, dtype, s.stream);
      o.args.activation_backward = kind;
      o.args.activation_input = random_tensor({c.m, c.n}, dtype, 4, s.stream);
      matmul(s.stream, o.args);
      const Tensor behind = tensor_of(o.expected, {c.m, c.n}, dtype, s.stream);
      Tensor expected = Tensor::empty({c.m, c.n}, dtype, s.stream);
      activation_backward(s.stream, kind, o.args.activation_input, behind, expected);
      CAPTURE(name_of(dtype), static_cast<int>(kind));
      REQUIRE(error_of(o.args.c.tensor, values_of(expected)) < 3 * tolerance_of(dtype));
    }
  }
}

TEST_CASE("a product sums the columns of a factor beside it", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : reference::float_dtypes()) {
    for (const Factor of : {Factor::kA, Factor::kB}) {
      for (const DType sums_dtype : {dtype, DType::kF32}) {
        Operands o =
            operands({21, 18, 37, Transpose::kYes, Transpose::kNo}, dtype, dtype, s.stream);
        const Tensor& factor = of == Factor::kA ? o.a : o.b;
        const int64_t columns = factor.shape()[1];
        Tensor expected = random_tensor({columns}, sums_dtype, 5, s.stream);
        o.args.bias_gradient = random_tensor({columns}, sums_dtype, 5, s.stream);
        o.args.bias_gradient_of = of;
        CAPTURE(name_of(dtype), name_of(sums_dtype), of == Factor::kA);
        for (const Write write : {Write::kAccumulate, Write::kOverwrite}) {
          o.args.write_bias_gradient = write;
          matmul(s.stream, o.args);
          column_sum(s.stream, factor, write, expected);
          REQUIRE(error_of(o.args.bias_gradient, values_of(expected)) < tolerance_of(sums_dtype));
        }
        REQUIRE(error_of(o.args.c.tensor, o.expected) < tolerance_of(dtype));
      }
    }
  }
}

TEST_CASE("a product refuses a backward that does not fit", "[kernels][device]") {
  TestStream s;
  const auto refused = [&](auto change, const std::string& words) {
    MatmulArgs args =
        operands({4, 6, 5, Transpose::kYes, Transpose::kNo}, DType::kF32, DType::kF32, s.stream)
            .args;
    change(args);
    REQUIRE_THROWS_WITH(matmul(s.stream, args), Catch::Contains(words));
  };
  const auto tensor = [&](int64_t numel, DType dtype) {
    return random_tensor({numel}, dtype, 1, s.stream);
  };
  const auto undo = [&](MatmulArgs& args) {
    args.activation_backward = Activation::kSilu;
    args.activation_input = tensor(24, DType::kF32);
  };
  refused(
      [&](MatmulArgs& args) {
        undo(args);
        args.write = Write::kAccumulate;
      },
      "undoes an activation does not add up");
  refused(
      [&](MatmulArgs& args) {
        undo(args);
        args.bias = tensor(6, DType::kF32);
      },
      "has no epilogue");
  refused(
      [&](MatmulArgs& args) {
        undo(args);
        args.c = {tensor(40, DType::kF32), 4, 6, 8, 0};
      },
      "has rows 8 apart");
  refused(
      [&](MatmulArgs& args) {
        undo(args);
        args.activation_input = tensor(24, DType::kBF16);
      },
      "activation_input");
  refused([&](MatmulArgs& args) { args.bias_gradient = tensor(4, DType::kF32); }, "bias_gradient");
  refused(
      [&](MatmulArgs& args) {
        args.bias_gradient = tensor(6, DType::kF32);
        args.b = matrix(tensor(30, DType::kF32), 6, 5);
        args.transpose_b = Transpose::kYes;
      },
      "column sums of a transposed a, or of b as it is");
}

TEST_CASE("equal products give equal bits for any number of threads", "[kernels]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int flags : {0, 1, 2, 3}) {
      const Case c{200, 700, 600, (flags & 1) != 0 ? Transpose::kYes : Transpose::kNo,
                   (flags & 2) != 0 ? Transpose::kYes : Transpose::kNo};
      TestStream one(1);
      const Operands first = operands(c, dtype, dtype, one.stream);
      matmul(one.stream, first.args);
      for (const int threads : {2, 3, 5}) {
        TestStream many(threads);
        const Operands other = operands(c, dtype, dtype, many.stream);
        matmul(many.stream, other.args);
        INFO(name_of(dtype) << " transposes " << flags << " threads " << threads);
        CHECK(same_bits(first.args.c.tensor, other.args.c.tensor));
      }
    }
  }
}

TEST_CASE("a product refuses operands that do not fit, naming them", "[kernels][device]") {
  TestStream s;
  Operands o = operands({4, 5, 6}, DType::kF32, DType::kF32, s.stream);
  MatmulArgs wrong = o.args;
  wrong.b = matrix(reference::random_tensor({7, 5}, DType::kF32, 1, s.stream), 7, 5);
  REQUIRE_THROWS_WITH(matmul(s.stream, wrong), Catch::Contains("op(a) is 4 x 6, op(b) is 7 x 5"));
  wrong = o.args;
  wrong.bias = reference::random_tensor({4}, DType::kF32, 1, s.stream);
  REQUIRE_THROWS_WITH(matmul(s.stream, wrong), Catch::Contains("bias"));
  wrong = o.args;
  wrong.write = Write::kAccumulate;
  wrong.activation = Activation::kRelu;
  REQUIRE_THROWS_WITH(matmul(s.stream, wrong), Catch::Contains("accumulating"));
  wrong = o.args;
  wrong.c = matrix(reference::random_tensor({4, 5}, DType::kBF16, 1, s.stream), 4, 5);
  REQUIRE_THROWS_WITH(matmul(s.stream, wrong), Catch::Contains("expected fp32"));
  wrong = o.args;
  wrong.a.offset = 1;
  REQUIRE_THROWS_WITH(matmul(s.stream, wrong),
                      Catch::Contains("ends at element 25 of a tensor of 24"));
}

}  // namespace ds::kernels
