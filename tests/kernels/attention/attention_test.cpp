// Attention forward, backward and decode, and rotary embedding, against the fp64 reference and its
// numeric gradient.
#include "kernels/attention/attention.h"

#include <cmath>

#include "core/values/rng.h"
#include "kernels/attention/attention_choice.h"
#include "kernels/rotary/rope.h"
#include "tests/kernels/attention/attention_run.h"
#include "tests/support/catch.h"
#include "tests/support/gradcheck.h"
#include "tests/support/reference.h"
#include "tests/support/step_numbers.h"

namespace ds::kernels {
namespace {

using namespace reference;

// Dropout of so little that every probability is kept as it is. cuDNN has no dropout of ours, so
// our own kernels compute it.
AttentionDropout own_kernels(const testing::PlacedInputs& inputs) {
  return {.p = 1e-30F, .mask = inputs.mask()};
}

bool takes_cudnn(Stream& stream, const AttentionShape& shape, DType dtype) {
  const auto kernels = attention_kernels(stream, {shape}, dtype, 0, {});
  if (!kernels) return false;
  CHECK(kernels->forward.kind == kernels->backward.kind);
  if (kernels->forward.kind == AttentionKind::kFlash) WARN(to_text(*kernels));
  return kernels->forward.kind == AttentionKind::kCudnn;
}

}  // namespace

TEST_CASE("attention matches the reference over lengths, heads, groups and dtypes",
          "[kernels][device]") {
  TestStream s;
  const std::vector<AttentionShape> shapes{
      {1, 1, 1, 1, 4},   {2, 5, 3, 3, 8},    {1, 70, 2, 1, 64}, {2, 130, 4, 2, 20},
      {1, 200, 1, 1, 7}, {1, 64, 2, 2, 128}, {1, 129, 6, 2, 33}};
  for (const DType dtype : float_dtypes()) {
    for (const AttentionShape& shape : shapes) {
      INFO(name_of(dtype) << " T " << shape.length << " H " << shape.heads << " D "
                          << shape.head_dim);
      const AttentionRun r = run_attention({shape}, dtype, s.stream);
      Values lse;
      const Values y = reference::attention({shape}, values_of(r.qkv), &lse);
      REQUIRE(error_of(r.y, y) < tolerance_of(dtype));
      REQUIRE(error_of(r.lse, lse) < 1e-5);
    }
  }
}

TEST_CASE("attention gradients match numeric ones", "[kernels][device]") {
  TestStream s;
  const std::vector<AttentionShape> shapes{{1, 6, 2, 1, 8}, {2, 5, 1, 1, 3}, {1, 9, 4, 2, 5}};
  for (const DType dtype : float_dtypes()) {
    for (const AttentionShape& shape : shapes) {
      INFO(name_of(dtype) << " T " << shape.length << " H " << shape.heads);
      const AttentionRun r = run_attention({shape}, dtype, s.stream);
      const Values dy = values_of(r.dy);
      const Values expected = numeric_gradient(
          [&](const Values& v) { return dot(dy, reference::attention({shape}, v)); },
          values_of(r.qkv));
      REQUIRE(error_of(r.dqkv, expected) < 3 * tolerance_of(dtype));
    }
  }
}

// Long sequences cross tile edges; directional derivatives check them at the price of two
// evaluations.
TEST_CASE("attention gradients of long sequences match directional derivatives",
          "[kernels][device]") {
  TestStream s;
  for (const AttentionShape& shape :
       {AttentionShape{1, 131, 2, 1, 16}, AttentionShape{1, 257, 1, 1, 64}}) {
    const AttentionRun r = run_attention({shape}, DType::kF32, s.stream);
    const Values x = values_of(r.qkv), dy = values_of(r.dy), gradient = values_of(r.dqkv);
    for (const uint64_t seed : {11, 12, 13}) {
      const Values direction = values_of(random_tensor(r.qkv.shape(), DType::kF32, seed, s.stream));
      const auto along = [&](double step) {
        Values moved = x;
        for (size_t i = 0; i < moved.size(); ++i) moved[i] += step * direction[i];
        return dot(dy, reference::attention({shape}, moved));
      };
      const double expected = (along(1e-5) - along(-1e-5)) / 2e-5;
      REQUIRE(dot(gradient, direction) == Approx(expected).epsilon(1e-4).margin(1e-4));
    }
  }
}

TEST_CASE("attention drops probabilities by sample, head, query and key alone",
          "[kernels][device]") {
  TestStream s;
  const Rng numbers(3, "drop"), rng = numbers.derive(2);
  const testing::PlacedInputs inputs(numbers, 5, s.stream);
  const AttentionDropout dropout{.p = 0.4F, .mask = inputs.mask(2)};
  for (const AttentionShape& shape :
       {AttentionShape{2, 7, 2, 1, 4}, AttentionShape{1, 70, 2, 1, 3}}) {
    const AttentionRun r = run_attention({shape}, DType::kF32, s.stream, dropout);
    const Keep keep = kept_by(rng, dropout, shape, 5);
    const Values x = values_of(r.qkv), dy = values_of(r.dy);
    REQUIRE(error_of(r.y, reference::attention({shape}, x, nullptr, keep)) < 1e-5);
    if (shape.length > 10) continue;
    const Values expected = numeric_gradient(
        [&](const Values& v) { return dot(dy, reference::attention({shape}, v, nullptr, keep)); },
        x);
    REQUIRE(error_of(r.dqkv, expected) < 1e-5);
  }
}

TEST_CASE("a share of the heads drops what it drops among all of them", "[kernels][device]") {
  TestStream s;
  const testing::PlacedInputs inputs(Rng(3, "drop"), 5, s.stream);
  const AttentionShape shape{2, 70, 2, 2, 8};
  const AttentionDropout two{.p = 0.4F, .mask = inputs.mask(2)};
  AttentionDropout share = two;
  share.all_heads = 2;
  REQUIRE(same_bits(run_attention({shape}, DType::kF32, s.stream, share).dqkv,
                    run_attention({shape}, DType::kF32, s.stream, two).dqkv));
  share.all_heads = 6;
  share.first_head = 4;
  const AttentionRun r = run_attention({shape}, DType::kF32, s.stream, share);
  const Rng rng = Rng(3, "drop").derive(2);
  const Keep keep = kept_by(rng, share, shape, 5);
  REQUIRE(error_of(r.y, reference::attention({shape}, values_of(r.qkv), nullptr, keep)) < 1e-5);
}

// Heads of whole packs, whose rows are copied 16 bytes at a time, and lengths around the rows that
// a block of threads has; a head of 256 has fewer of them.
TEST_CASE("attention of whole packs matches the reference around the sizes of blocks",
          "[kernels][device]") {
  TestStream s;
  const std::vector<AttentionShape> shapes{{1, 15, 2, 1, 32},  {1, 17, 1, 1, 64},
                                           {1, 63, 1, 1, 32},  {2, 65, 2, 2, 32},
                                           {1, 33, 1, 1, 256}, {1, 19, 3, 1, 136}};
  for (const DType dtype : float_dtypes()) {
    for (const AttentionShape& shape : shapes) {
      INFO(name_of(dtype) << " T " << shape.length << " H " << shape.heads << " D "
                          << shape.head_dim);
      const AttentionRun r = run_attention({shape}, dtype, s.stream);
      const Values x = values_of(r.qkv), dy = values_of(r.dy), gradient = values_of(r.dqkv);
      REQUIRE(error_of(r.y, reference::attention({shape}, x)) < tolerance_of(dtype));
      const Values direction = values_of(random_tensor(r.qkv.shape(), DType::kF32, 7, s.stream));
      const auto along = [&](double step) {
        Values moved = x;
        for (size_t i = 0; i < moved.size(); ++i) moved[i] += step * direction[i];
        return dot(dy, reference::attention({shape}, moved));
      };
      // Rounding errors of single elements add up like random steps.
      const double size = std::sqrt(dot(gradient, gradient) * dot(direction, direction) /
                                    static_cast<double>(gradient.size()));
      const double expected = (along(1e-5) - along(-1e-5)) / 2e-5;
      REQUIRE(std::abs(dot(gradient, direction) - expected) < 10 * tolerance_of(dtype) * size);
    }
  }
}

TEST_CASE("attention by our own kernels and by cuDNN agree", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const AttentionShape& shape :
         {AttentionShape{2, 64, 2, 2, 64}, AttentionShape{1, 129, 4, 1, 128},
          AttentionShape{3, 50, 6, 2, 32}}) {
      INFO(name_of(dtype) << " T " << shape.length << " H " << shape.heads << " D "
                          << shape.head_dim);
      const testing::PlacedInputs inputs(s.stream);
      const AttentionRun own = run_attention({shape}, dtype, s.stream, own_kernels(inputs));
      const AttentionRun r = run_attention({shape}, dtype, s.stream);
      const AttentionRun again = run_attention({shape}, dtype, s.stream);
      REQUIRE(same_bits(r.y, again.y));
      REQUIRE(same_bits(r.dqkv, again.dqkv));
      REQUIRE(error_of(r.lse, values_of(own.lse)) < 1e-4);
      REQUIRE(error_of(r.y, values_of(own.y)) < 2 * tolerance_of(dtype));
      REQUIRE(error_of(r.dqkv, values_of(own.dqkv)) < 4 * tolerance_of(dtype));
      const bool same_kernels =
          s.stream.device().kind == Device::Kind::kCuda && !takes_cudnn(s.stream, shape, dtype);
      REQUIRE((!same_kernels || same_bits(r.dqkv, own.dqkv)));
    }
  }
}

// Rows of a view may begin anywhere, and then no 16 bytes of them are aligned. cuDNN refuses
// them, so our own kernels are compared.
TEST_CASE("attention of rows that begin anywhere has the bits of aligned ones",
          "[kernels][device]") {
  TestStream s;
  const AttentionShape shape{1, 21, 2, 1, 16};
  for (const DType dtype : float_dtypes()) {
    const testing::PlacedInputs inputs(s.stream);
    const AttentionDropout dropout =
        takes_cudnn(s.stream, shape, dtype) ? own_kernels(inputs) : AttentionDropout{};
    const AttentionRun aligned = run_attention({shape}, dtype, s.stream, dropout);
    const auto shifted = [&](const Tensor& like) {
      return Tensor::zeros({like.numel() + 1}, dtype, s.stream)
          .narrow(1, like.numel())
          .reshape(like.shape());
    };
    const Tensor qkv = shifted(aligned.qkv);
    const Tensor dy = shifted(aligned.dy);
    Tensor y = shifted(aligned.y);
    Tensor dqkv = shifted(aligned.dqkv);
    Tensor lse = Tensor::empty(aligned.lse.shape(), DType::kF32, s.stream);
    s.stream.copy(aligned.qkv.address(), qkv.address(), qkv.bytes());
    s.stream.copy(aligned.dy.address(), dy.address(), dy.bytes());
    attention_forward(s.stream, {shape}, qkv, y, lse, dropout);
    attention_backward(s.stream, {shape}, qkv, y, lse, dy, dqkv, dropout);
    REQUIRE(same_bits(y, aligned.y));
    REQUIRE(same_bits(lse, aligned.lse));
    REQUIRE(same_bits(dqkv, aligned.dqkv));
  }
}

// A bias on all keys changes no softmax, so its gradient, the sum of the key gradients,
// vanishes.
TEST_CASE("the gradients of the keys of a head sum to zero", "[kernels][device]") {
  TestStream s;
  const AttentionShape shape{1, 150, 1, 1, 16};
  const AttentionRun r = run_attention({shape}, DType::kF32, s.stream);
  const Values dqkv = values_of(r.dqkv);
  for (size_t i = 16; i < 32; ++i) {
    double sum = 0;
    double size = 0;
    for (size_t t = 0; t < 150; ++t) {
      sum += dqkv[t * 48 + i];
      size += std::abs(dqkv[t * 48 + i]);
    }
    REQUIRE(std::abs(sum) < 1e-6 * size);
  }
}

TEST_CASE("attention gives equal bits for any number of threads", "[kernels]") {
  const AttentionShape shape{2, 100, 3, 1, 32};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    TestStream one(1);
    const AttentionRun a = run_attention({shape}, dtype, one.stream);
    TestStream many(4);
    const AttentionRun b = run_attention({shape}, dtype, many.stream);
    REQUIRE(same_bits(a.y, b.y));
    REQUIRE(same_bits(a.lse, b.lse));
    REQUIRE(same_bits(a.dqkv, b.dqkv));
  }
}

TEST_CASE("decoding one position against a cache equals the last row of the whole",
          "[kernels][device]") {
  TestStream s;
  const AttentionShape shape{2, 37, 4, 2, 24};
  const int64_t capacity = 50;
  for (const DType dtype : float_dtypes()) {
    const AttentionRun r = run_attention({shape}, dtype, s.stream);
    const Values qkv = values_of(r.qkv), y = values_of(r.y);
    const int64_t width = shape.kv_heads * shape.head_dim;
    Values q, k(static_cast<size_t>(2 * capacity * width)), v(k.size()), expected;
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t t = 0; t < shape.length; ++t) {
        for (int64_t i = 0; i < width; ++i) {
          const int64_t at =
              (b * shape.length + t) * shape.packed() + shape.heads * shape.head_dim + i;
          k[static_cast<size_t>((b * capacity + t) * width + i)] = qkv[static_cast<size_t>(at)];
          v[static_cast<size_t>((b * capacity + t) * width + i)] =
              qkv[static_cast<size_t>(at + width)];
        }
      }
      const int64_t last = (b + 1) * shape.length - 1;
      for (int64_t i = 0; i < shape.heads * shape.head_dim; ++i) {
        q.push_back(qkv[static_cast<size_t>(last * shape.packed() + i)]);
        expected.push_back(y[static_cast<size_t>(last * shape.heads * shape.head_dim + i)]);
      }
    }
    Tensor out = Tensor::empty({2, shape.heads * shape.head_dim}, dtype, s.stream);
    attention_decode(s.stream, {shape}, tensor_of(q, out.shape(), dtype, s.stream),
                     tensor_of(k, {2, capacity, width}, dtype, s.stream),
                     tensor_of(v, {2, capacity, width}, dtype, s.stream), capacity, out);
    REQUIRE(error_of(out, expected) < 2 * tolerance_of(dtype));
  }
}

TEST_CASE("attention refuses shapes that do not fit", "[kernels][device]") {
  TestStream s;
  AttentionRun r = run_attention({{1, 4, 2, 1, 8}}, DType::kF32, s.stream);
  REQUIRE_THROWS_WITH(attention_forward(s.stream, {{1, 4, 3, 2, 8}}, r.qkv, r.y, r.lse),
                      Catch::Contains("3 query heads do not divide into 2 key heads"));
  REQUIRE_THROWS_WITH(attention_forward(s.stream, {{1, 5, 2, 1, 8}}, r.qkv, r.y, r.lse),
                      Catch::Contains("attention_forward: qkv has shape [4, 32]"));
  REQUIRE_THROWS_WITH(attention_decode(s.stream, {{1, 4, 2, 1, 8}}, r.qkv, r.qkv, r.qkv, 3, r.y),
                      Catch::Contains("4 positions filled of a cache of 3"));
  if (s.stream.device().kind != Device::Kind::kCuda) return;
  REQUIRE_THROWS_WITH(run_attention({{1, 2, 1, 1, 257}}, DType::kF32, s.stream),
                      Catch::Contains("heads of 257 elements on a CUDA device"));
}

TEST_CASE("rope rotates queries and keys by their position and back, values untouched",
          "[kernels][device]") {
  TestStream s;
  const AttentionShape shape{2, 11, 3, 1, 10};
  for (const DType dtype : float_dtypes()) {
    const Tensor original = random_tensor({22, shape.packed()}, dtype, 1, s.stream);
    Values expected = values_of(original);
    for (size_t row = 0; row < 22; ++row) {
      for (size_t head = 0; head < 4; ++head) {
        for (size_t j = 0; j < 5; ++j) {
          const double angle = static_cast<double>(100 + row % 11) *
                               std::pow(10000.0, -2.0 * static_cast<double>(j) / 10.0);
          double& a = expected[row * 50 + head * 10 + j];
          double& b = expected[row * 50 + head * 10 + j + 5];
          const double x = a;
          a = x * std::cos(angle) - b * std::sin(angle);
          b = b * std::cos(angle) + x * std::sin(angle);
        }
      }
    }
    Tensor qkv = tensor_of(values_of(original), original.shape(), dtype, s.stream);
    rope(s.stream, shape, rotary(1e4, 10), {100}, Rotation::kForward, qkv);
    REQUIRE(error_of(qkv, expected) < 3 * tolerance_of(dtype));
    rope(s.stream, shape, rotary(1e4, 10), {100}, Rotation::kInverse, qkv);
    REQUIRE(error_of(qkv, values_of(original)) < 3 * tolerance_of(dtype));
  }
}

TEST_CASE("rope of misaligned rows has the bits of aligned ones, for heads of any size",
          "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    // Halves around a pack, and more pairs than a GPU's block has threads.
    for (const int64_t head_dim : {2, 8, 16, 18, 64, 128, 528, 1022}) {
      const AttentionShape shape{2, 3, 2, 1, head_dim};
      CAPTURE(name_of(dtype), head_dim);
      const int64_t numel = 6 * shape.packed();
      const Tensor room = random_tensor({numel + 1}, dtype, 1, s.stream);
      Tensor apart = room.narrow(1, numel);
      Tensor aligned = tensor_of(values_of(apart), {numel}, dtype, s.stream);
      const Values first = values_of(room.narrow(0, 1));
      rope(s.stream, shape, rotary(5e5, head_dim), {70000}, Rotation::kForward, apart);
      rope(s.stream, shape, rotary(5e5, head_dim), {70000}, Rotation::kForward, aligned);
      REQUIRE(same_bits(apart, aligned));
      REQUIRE(values_of(room.narrow(0, 1)) == first);
    }
  }
}

TEST_CASE("rope of no rows does nothing", "[kernels][device]") {
  TestStream s;
  Tensor none = Tensor::zeros({0}, DType::kF32, s.stream);
  CHECK_NOTHROW(rope(s.stream, {0, 3, 1, 1, 8}, rotary(1e4, 8), {}, Rotation::kForward, none));
  CHECK_NOTHROW(rope(s.stream, {3, 0, 1, 1, 8}, rotary(1e4, 8), {}, Rotation::kForward, none));
  s.stream.synchronize();
}

}  // namespace ds::kernels
