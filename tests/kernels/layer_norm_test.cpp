// Layer norm and RMS norm, forward and backward, against the fp64 reference and its numeric
// gradient.
#include "kernels/norm/layer_norm.h"

#include "tests/support/catch.h"
#include "tests/support/gradcheck.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

struct Setting {
  Tensor x, gamma, beta, dy, residual, y, dx, mean, inv;
};

Setting setting(int64_t rows, int64_t n, DType dtype, Stream& stream) {
  return {.x = random_tensor({rows, n}, dtype, 1, stream, 2.0),
          .gamma = random_tensor({n}, dtype, 2, stream),
          .beta = random_tensor({n}, dtype, 3, stream),
          .dy = random_tensor({rows, n}, dtype, 4, stream),
          .residual = random_tensor({rows, n}, dtype, 5, stream),
          .y = Tensor::empty({rows, n}, dtype, stream),
          .dx = Tensor::empty({rows, n}, dtype, stream),
          .mean = Tensor::empty({rows}, DType::kF32, stream),
          .inv = Tensor::empty({rows}, DType::kF32, stream)};
}

constexpr float kEps = 1e-5F;

// Memory of those of a layer norm's weights.
LayerNormGrads gradients_of(int64_t columns, Stream& stream) {
  return {.dgamma = Tensor::empty({columns}, DType::kF32, stream),
          .dbeta = Tensor::empty({columns}, DType::kF32, stream)};
}

Values column_totals(const Values& terms, int64_t columns) {
  Values out(static_cast<size_t>(columns));
  for (size_t i = 0; i < terms.size(); ++i) out[i % out.size()] += terms[i];
  return out;
}

// Sums down the columns of dy (x - mean) inv.
Values weight_gradient(const Setting& t, const Values& dy, const Values& means) {
  const Values x = values_of(t.x), inv = values_of(t.inv);
  const auto columns = static_cast<size_t>(t.gamma.numel());
  Values terms(dy.size());
  for (size_t i = 0; i < dy.size(); ++i) {
    terms[i] = dy[i] * (x[i] - means[i / columns]) * inv[i / columns];
  }
  return column_totals(terms, t.gamma.numel());
}

Values plus(Values a, const Values& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

}  // namespace

TEST_CASE("norms match the reference for every dtype and odd width", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t n : {1, 7, 16, 100, 769}) {
      Setting t = setting(5, n, dtype, s.stream);
      INFO(name_of(dtype) << " width " << n);
      if (n > 1) {  // of one element the result is beta: nothing to scale an error by
        layer_norm(s.stream, t.x, t.gamma, t.beta, kEps, t.y, t.mean, t.inv);
        REQUIRE(error_of(t.y, reference::layer_norm(values_of(t.x), values_of(t.gamma),
                                                    values_of(t.beta), kEps)) <
                tolerance_of(dtype));
      }
      rms_norm(s.stream, t.x, t.gamma, kEps, t.y, t.inv);
      REQUIRE(error_of(t.y, reference::rms_norm(values_of(t.x), values_of(t.gamma), kEps)) <
              tolerance_of(dtype));
    }
  }
}

TEST_CASE("a norm of a sum stores the sum and normalises what it stored", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    Setting t = setting(6, 50, dtype, s.stream);
    Tensor sum = Tensor::empty({6, 50}, dtype, s.stream);
    add_layer_norm(s.stream, t.x, t.residual, t.gamma, t.beta, kEps, sum, t.y, t.mean, t.inv);
    REQUIRE(error_of(sum, plus(values_of(t.x), values_of(t.residual))) < tolerance_of(dtype));
    REQUIRE(error_of(t.y, reference::layer_norm(values_of(sum), values_of(t.gamma),
                                                values_of(t.beta), kEps)) < tolerance_of(dtype));
    add_rms_norm(s.stream, t.x, t.residual, t.gamma, kEps, sum, t.y, t.inv);
    REQUIRE(error_of(t.y, reference::rms_norm(values_of(sum), values_of(t.gamma), kEps)) <
            tolerance_of(dtype));
  }
}

TEST_CASE("norm gradients match numeric ones", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t n : {3, 16, 45}) {
      Setting t = setting(4, n, dtype, s.stream);
      const Values x = values_of(t.x), gamma = values_of(t.gamma), beta = values_of(t.beta);
      const Values dy = values_of(t.dy);
      LayerNormGrads grads = gradients_of(n, s.stream);
      INFO(name_of(dtype) << " width " << n);
      layer_norm(s.stream, t.x, t.gamma, t.beta, kEps, t.y, t.mean, t.inv);
      layer_norm_backward(s.stream, t.x, t.gamma, t.mean, t.inv, t.dy, {}, t.dx, grads);
      const auto layer_x = numeric_gradient(
          [&](const Values& v) { return dot(dy, reference::layer_norm(v, gamma, beta, kEps)); }, x);
      const auto layer_gamma = numeric_gradient(
          [&](const Values& v) { return dot(dy, reference::layer_norm(x, v, beta, kEps)); }, gamma);
      const auto layer_beta = numeric_gradient(
          [&](const Values& v) { return dot(dy, reference::layer_norm(x, gamma, v, kEps)); }, beta);
      REQUIRE(error_of(t.dx, layer_x) < 3 * tolerance_of(dtype));
      REQUIRE(error_of(grads.dgamma, layer_gamma) < 1e-5);
      REQUIRE(error_of(grads.dbeta, layer_beta) < 1e-5);
      rms_norm(s.stream, t.x, t.gamma, kEps, t.y, t.inv);
      grads.write_gamma = Write::kAccumulate;
      const Values before = values_of(grads.dgamma);
      rms_norm_backward(s.stream, t.x, t.gamma, t.inv, t.dy, t.residual, t.dx, grads);
      const auto rms_x = numeric_gradient(
          [&](const Values& v) { return dot(dy, reference::rms_norm(v, gamma, kEps)); }, x);
      const auto rms_gamma = numeric_gradient(
          [&](const Values& v) { return dot(dy, reference::rms_norm(x, v, kEps)); }, gamma);
      REQUIRE(error_of(t.dx, plus(rms_x, values_of(t.residual))) < 3 * tolerance_of(dtype));
      REQUIRE(error_of(grads.dgamma, plus(rms_gamma, before)) < 1e-5);
    }
  }
}

TEST_CASE("an RMS norm with a weight around one multiplies by 1 + w", "[kernels][device]") {
  TestStream s;
  const auto around_one = [](Values gamma) {
    for (double& w : gamma) w += 1;
    return gamma;
  };
  for (const DType dtype : float_dtypes()) {
    for (const int64_t n : {3, 16, 45, 776}) {
      CAPTURE(name_of(dtype), n);
      Setting t = setting(4, n, dtype, s.stream);
      const Values gamma = values_of(t.gamma), dy = values_of(t.dy);
      Tensor sum = Tensor::empty({4, n}, dtype, s.stream);
      add_rms_norm(s.stream, t.x, t.residual, t.gamma, kEps, sum, t.y, t.inv, RmsWeight::kOnePlus);
      REQUIRE(error_of(t.y, reference::rms_norm(values_of(sum), around_one(gamma), kEps)) <
              tolerance_of(dtype));
      rms_norm(s.stream, t.x, t.gamma, kEps, t.y, t.inv, RmsWeight::kOnePlus);
      const Values x = values_of(t.x);
      REQUIRE(error_of(t.y, reference::rms_norm(x, around_one(gamma), kEps)) < tolerance_of(dtype));
      LayerNormGrads grads{.dgamma = Tensor::empty({n}, DType::kF32, s.stream)};
      rms_norm_backward(s.stream, t.x, t.gamma, t.inv, t.dy, t.residual, t.dx, grads,
                        RmsWeight::kOnePlus);
      REQUIRE(error_of(grads.dgamma, weight_gradient(t, dy, Values(4))) < 1e-5);
      if (n > 100) continue;  // what follows takes two norms an element
      const auto of_x = numeric_gradient(
          [&](const Values& v) { return dot(dy, reference::rms_norm(v, around_one(gamma), kEps)); },
          x);
      REQUIRE(error_of(t.dx, plus(of_x, values_of(t.residual))) < 3 * tolerance_of(dtype));
    }
  }
}

// Rows of several groups whose sums are added: of one pack a thread, of one warp or of several, and
// of more; rows whose sums have no room in shared memory.
TEST_CASE("gradients of a norm's weights are sums over all rows", "[kernels][device]") {
  TestStream s;
  struct Size {
    int64_t rows, columns;
    DType dtype;
  };
  for (const Size& size :
       {Size{83, 48, DType::kF32}, Size{83, 48, DType::kBF16}, Size{83, 776, DType::kBF16},
        Size{35, 7, DType::kF16}, Size{18, 2056, DType::kBF16}, Size{2, 44000, DType::kF32}}) {
    CAPTURE(size.rows, size.columns, name_of(size.dtype));
    Setting t = setting(size.rows, size.columns, size.dtype, s.stream);
    LayerNormGrads grads = gradients_of(size.columns, s.stream);
    layer_norm(s.stream, t.x, t.gamma, t.beta, kEps, t.y, t.mean, t.inv);
    layer_norm_backward(s.stream, t.x, t.gamma, t.mean, t.inv, t.dy, {}, t.dx, grads);
    const Values dy = values_of(t.dy);
    CHECK(error_of(grads.dgamma, weight_gradient(t, dy, values_of(t.mean))) < 1e-5);
    CHECK(error_of(grads.dbeta, column_totals(dy, size.columns)) < 1e-5);
    rms_norm(s.stream, t.x, t.gamma, kEps, t.y, t.inv);
    rms_norm_backward(s.stream, t.x, t.gamma, t.inv, t.dy, {}, t.dx, grads);
    const Values no_means(static_cast<size_t>(size.rows));
    CHECK(error_of(grads.dgamma, weight_gradient(t, dy, no_means)) < 1e-5);
  }
}

TEST_CASE("the gradient through a norm may overwrite the gradient it came from",
          "[kernels][device]") {
  TestStream s;
  for (const int64_t width : {33, 160}) {
    CAPTURE(width);
    Setting t = setting(70, width, DType::kF32, s.stream);
    LayerNormGrads grads = gradients_of(width, s.stream);
    layer_norm(s.stream, t.x, t.gamma, t.beta, kEps, t.y, t.mean, t.inv);
    layer_norm_backward(s.stream, t.x, t.gamma, t.mean, t.inv, t.dy, t.residual, t.dx, grads);
    LayerNormGrads again = gradients_of(width, s.stream);
    layer_norm_backward(s.stream, t.x, t.gamma, t.mean, t.inv, t.dy, t.residual, t.dy, again);
    REQUIRE(same_bits(t.dx, t.dy));
    REQUIRE(same_bits(grads.dgamma, again.dgamma));
    REQUIRE(same_bits(grads.dbeta, again.dbeta));
  }
}

TEST_CASE("the gradient through a norm has its bits where nobody wants those of the weights",
          "[kernels][device]") {
  TestStream s;
  for (const int64_t width : {33, 160}) {
    CAPTURE(width);
    Setting t = setting(70, width, DType::kF32, s.stream);
    LayerNormGrads grads = gradients_of(width, s.stream);
    LayerNormGrads of_rms{.dgamma = Tensor::empty({width}, DType::kF32, s.stream)}, none;
    Tensor dx = Tensor::empty(t.dx.shape(), DType::kF32, s.stream);
    layer_norm(s.stream, t.x, t.gamma, t.beta, kEps, t.y, t.mean, t.inv);
    layer_norm_backward(s.stream, t.x, t.gamma, t.mean, t.inv, t.dy, t.residual, t.dx, grads);
    layer_norm_backward(s.stream, t.x, t.gamma, t.mean, t.inv, t.dy, t.residual, dx, none);
    REQUIRE(same_bits(t.dx, dx));
    rms_norm(s.stream, t.x, t.gamma, kEps, t.y, t.inv);
    rms_norm_backward(s.stream, t.x, t.gamma, t.inv, t.dy, {}, t.dx, of_rms);
    rms_norm_backward(s.stream, t.x, t.gamma, t.inv, t.dy, {}, dx, none);
    REQUIRE(same_bits(t.dx, dx));
  }
}

TEST_CASE("norms give equal bits for any number of threads, and refuse wrong shapes",
          "[kernels][device]") {
  TestStream one(1);
  Setting a = setting(300, 200, DType::kF32, one.stream);
  LayerNormGrads ga = gradients_of(200, one.stream);
  layer_norm(one.stream, a.x, a.gamma, a.beta, kEps, a.y, a.mean, a.inv);
  layer_norm_backward(one.stream, a.x, a.gamma, a.mean, a.inv, a.dy, {}, a.dx, ga);
  TestStream many(3);
  Setting b = setting(300, 200, DType::kF32, many.stream);
  LayerNormGrads gb = gradients_of(200, many.stream);
  layer_norm(many.stream, b.x, b.gamma, b.beta, kEps, b.y, b.mean, b.inv);
  layer_norm_backward(many.stream, b.x, b.gamma, b.mean, b.inv, b.dy, {}, b.dx, gb);
  REQUIRE(same_bits(a.y, b.y));
  REQUIRE(same_bits(a.dx, b.dx));
  REQUIRE(same_bits(ga.dgamma, gb.dgamma));
  REQUIRE(same_bits(ga.dbeta, gb.dbeta));
  Tensor small = Tensor::empty({299, 200}, DType::kF32, many.stream);
  REQUIRE_THROWS_WITH(layer_norm(many.stream, b.x, b.gamma, b.beta, kEps, small, b.mean, b.inv),
                      Catch::Contains("layer_norm: y has shape [299, 200]"));
}

}  // namespace ds::kernels
