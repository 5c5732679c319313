// Kernels over random shapes against plain loops in fp64: products of views with strides and
// offsets, embeddings, rotations, decoding, gated units.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/elementwise/activation.h"
#include "kernels/embedding/embedding.h"
#include "kernels/matmul/matmul.h"
#include "kernels/rotary/rope.h"
#include "kernels/softmax/distillation.h"
#include "kernels/value_loss/hidden_loss.h"
#include "tests/kernels/distillation/distilled_reference.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"
#include "tests/support/step_numbers.h"

namespace ds::kernels {
namespace {

using namespace reference;

// A whole number from `low` to `high`, the next of its stream.
class Draws {
 public:
  explicit Draws(uint64_t seed) : rng_(seed, "shapes") {}
  int64_t operator()(int64_t low, int64_t high) {
    return low + rng_.bits(next_++) % static_cast<uint32_t>(high - low + 1);
  }

 private:
  Rng rng_;
  uint64_t next_ = 0;
};

// A matrix somewhere inside a larger tensor of random values.
MatrixView random_view(int64_t rows, int64_t columns, DType dtype, uint64_t seed, Draws& draw,
                       Stream& stream) {
  const int64_t stride = columns + draw(0, 7), offset = draw(0, 9);
  const Tensor whole = random_tensor({offset + rows * stride + draw(0, 5)}, dtype, seed, stream);
  return {whole, rows, columns, stride, offset};
}

// Element (i, j) of op(view).
double at(const Values& values, const MatrixView& view, Transpose transpose, int64_t i, int64_t j) {
  if (transpose == Transpose::kYes) std::swap(i, j);
  return values[static_cast<size_t>(view.offset + i * view.row_stride + j)];
}

TEST_CASE("products of any views match the reference and write nothing beside the result",
          "[kernels][device]") {
  TestStream s(2);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Draws draw(seed);
    const DType dtype = float_dtypes()[seed % 3];
    const DType c_dtype = draw(0, 1) == 0 ? dtype : DType::kF32;
    const int64_t m = draw(1, 70), n = draw(1, 70), k = draw(1, 90);
    const auto ta = draw(0, 1) == 0 ? Transpose::kNo : Transpose::kYes;
    const auto tb = draw(0, 1) == 0 ? Transpose::kNo : Transpose::kYes;
    const auto write = draw(0, 1) == 0 ? Write::kOverwrite : Write::kAccumulate;
    const bool flip_a = ta == Transpose::kYes, flip_b = tb == Transpose::kYes;
    const MatrixView a = random_view(flip_a ? k : m, flip_a ? m : k, dtype, 1, draw, s.stream);
    const MatrixView b = random_view(flip_b ? n : k, flip_b ? k : n, dtype, 2, draw, s.stream);
    const MatrixView c = random_view(m, n, c_dtype, 3, draw, s.stream);
    const Values va = values_of(a.tensor), vb = values_of(b.tensor), before = values_of(c.tensor);
    matmul(s.stream,
           {.a = a, .b = b, .c = c, .transpose_a = ta, .transpose_b = tb, .write = write});
    Values expected = before;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += at(va, a, ta, i, l) * at(vb, b, tb, l, j);
        double& place = expected[static_cast<size_t>(c.offset + i * c.row_stride + j)];
        place = write == Write::kAccumulate ? place + sum : sum;
      }
    }
    CAPTURE(seed, m, n, k, name_of(dtype), name_of(c_dtype));
    REQUIRE(error_of(c.tensor, expected) < 2 * tolerance_of(c_dtype));
    // What is not of the view keeps its bits.
    const Values after = values_of(c.tensor);
    for (size_t i = 0; i < after.size(); ++i) {
      const int64_t from = static_cast<int64_t>(i) - c.offset;
      const bool inside = from >= 0 && from / c.row_stride < m && from % c.row_stride < n;
      if (!inside) REQUIRE(after[i] == before[i]);
    }
  }
}

TEST_CASE("embeddings of any shape look up their rows and add the positions", "[kernels][device]") {
  TestStream s(3);
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Draws draw(seed);
    const DType dtype = float_dtypes()[seed % 3];
    const int64_t vocabulary = draw(1, 30), width = draw(1, 70), length = draw(1, 9);
    const int64_t rows = draw(1, 25), first = draw(0, 4);
    std::vector<int32_t> ids(static_cast<size_t>(rows));
    for (int32_t& id : ids) id = static_cast<int32_t>(draw(0, vocabulary - 1));
    const Tensor tokens = tokens_of(ids, s.stream);
    const Tensor table = random_tensor({vocabulary, width}, dtype, 1, s.stream);
    const bool with_positions = draw(0, 1) == 1;
    const Tensor positions =
        with_positions ? random_tensor({first + length, width}, dtype, 2, s.stream) : Tensor();
    Tensor y = Tensor::empty({rows, width}, dtype, s.stream);
    embedding_forward(s.stream, tokens, table, positions, length, first, y);
    const Values vt = values_of(table);
    const Values vp = with_positions ? values_of(positions) : Values();
    Values expected(static_cast<size_t>(rows * width));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t c = 0; c < width; ++c) {
        double& value = expected[static_cast<size_t>(row * width + c)];
        value = vt[static_cast<size_t>(ids[static_cast<size_t>(row)] * width + c)];
        if (with_positions) value += vp[static_cast<size_t>((first + row % length) * width + c)];
      }
    }
    CAPTURE(seed, name_of(dtype), width, rows, length);
    REQUIRE(error_of(y, expected) < tolerance_of(dtype));
    if (!with_positions) REQUIRE(error_of(y, expected) == 0);
  }
}

TEST_CASE("gradients of embeddings of any shape are sums over the rows of a token or position",
          "[kernels][device]") {
  TestStream s(3);
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Draws draw(seed);
    const DType dtype = float_dtypes()[seed % 3];
    const int64_t vocabulary = draw(1, 12), width = draw(1, 70), rows = draw(1, 40);
    const int64_t length = draw(1, 9), known = length + draw(0, 3);
    const auto write = draw(0, 1) == 0 ? Write::kOverwrite : Write::kAccumulate;
    std::vector<int32_t> ids(static_cast<size_t>(rows));
    for (int32_t& id : ids) id = static_cast<int32_t>(draw(0, vocabulary - 1));
    const Tensor dy = random_tensor({rows, width}, dtype, 1, s.stream);
    Tensor dtable = random_tensor({vocabulary, width}, DType::kF32, 2, s.stream);
    Tensor dpositions = random_tensor({known, width}, DType::kF32, 3, s.stream);
    Values of_tokens = values_of(dtable), of_positions = values_of(dpositions);
    if (write == Write::kOverwrite) {
      std::ranges::fill(of_tokens, 0.0);
      std::ranges::fill(of_positions, 0.0);
    }
    const Values values = values_of(dy);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t c = 0; c < width; ++c) {
        const double value = values[static_cast<size_t>(row * width + c)];
        of_tokens[static_cast<size_t>(ids[static_cast<size_t>(row)] * width + c)] += value;
        of_positions[static_cast<size_t>(row % length * width + c)] += value;
      }
    }
    embedding_backward(s.stream, order_of(ids, s.stream), dy, write, dtable);
    position_backward(s.stream, dy, length, write, dpositions);
    CAPTURE(seed, name_of(dtype), width, rows, length);
    REQUIRE(error_of(dtable, of_tokens) < 1e-6);
    REQUIRE(error_of(dpositions, of_positions) < 1e-6);
  }
}

// Angles in fp32, as the header of the kernel says whose arithmetic it follows.
Values rotated(const Values& values, const AttentionShape& shape, float theta, int64_t first,
               double sign) {
  Values out = values;
  const int64_t half = shape.head_dim / 2;
  for (int64_t row = 0; row < shape.batch * shape.length; ++row) {
    for (int64_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
      for (int64_t j = 0; j < half; ++j) {
        const float exponent = static_cast<float>(2 * j) / static_cast<float>(shape.head_dim);
        const float frequency = 1.0F / std::pow(theta, exponent);
        const double angle =
            static_cast<double>(static_cast<float>(first + row % shape.length) * frequency);
        const auto a = static_cast<size_t>(row * shape.packed() + head * shape.head_dim + j);
        const size_t b = a + static_cast<size_t>(half);
        out[a] = values[a] * std::cos(angle) - sign * values[b] * std::sin(angle);
        out[b] = values[b] * std::cos(angle) + sign * values[a] * std::sin(angle);
      }
    }
  }
  return out;
}

TEST_CASE("rotations follow every change of base, width, position and length on one stream",
          "[kernels][device]") {
  TestStream s(2);  // the stream keeps the last table of angles
  struct Turn {
    AttentionShape shape;
    float theta;
    int64_t first;
  };
  const std::vector<Turn> turns{
      {{1, 4, 2, 1, 8}, 1e4F, 0},   {{1, 4, 2, 1, 8}, 5e5F, 0},  // another base
      {{1, 4, 2, 1, 8}, 1e4F, 0},   {{1, 4, 2, 1, 8}, 1e4F, 7},  // another position
      {{1, 4, 2, 1, 6}, 1e4F, 7},   {{2, 3, 2, 2, 6}, 1e4F, 7},  // another width, another length
      {{3, 1, 4, 2, 2}, 1e4F, 100}, {{2, 5, 1, 1, 16}, 1e4F, 0}};
  for (size_t i = 0; i < turns.size(); ++i) {
    const auto& [shape, theta, first] = turns[i];
    for (const DType dtype : float_dtypes()) {
      CAPTURE(i, name_of(dtype));
      Tensor qkv = random_tensor({shape.batch * shape.length, shape.packed()}, dtype, i, s.stream);
      const Values before = values_of(qkv);
      rope(s.stream, shape, rotary(theta, shape.head_dim), {first}, Rotation::kForward, qkv);
      REQUIRE(error_of(qkv, rotated(before, shape, theta, first, 1)) < tolerance_of(dtype));
      const Values between = values_of(qkv);
      rope(s.stream, shape, rotary(theta, shape.head_dim), {first}, Rotation::kInverse, qkv);
      REQUIRE(error_of(qkv, rotated(between, shape, theta, first, -1)) < tolerance_of(dtype));
      REQUIRE(error_of(qkv, before) < 3 * tolerance_of(dtype));
    }
  }
}

TEST_CASE("a score after rotation depends on how far apart two positions are",
          "[kernels][device]") {
  TestStream s;
  const AttentionShape shape{1, 1, 1, 1, 16};
  const auto score = [&](int64_t query_position, int64_t key_position) {
    Tensor query = random_tensor({1, 48}, DType::kF32, 1, s.stream);
    Tensor key = random_tensor({1, 48}, DType::kF32, 1, s.stream);
    rope(s.stream, shape, rotary(1e4, 16), {query_position}, Rotation::kForward, query);
    rope(s.stream, shape, rotary(1e4, 16), {key_position}, Rotation::kForward, key);
    const Values q = values_of(query.narrow(0, 16)), k = values_of(key.narrow(16, 16));
    return dot(q, k);
  };
  CHECK(score(5, 3) == Approx(score(25, 23)).epsilon(1e-4));
  CHECK(score(9, 9) == Approx(score(0, 0)).epsilon(1e-4));
  CHECK(std::abs(score(5, 3) - score(5, 4)) > 1e-2);
}

TEST_CASE("decoding follows the formula for every number of filled positions", "[kernels]") {
  TestStream s(2);
  constexpr int64_t kCapacity = 19;
  for (const DType dtype : float_dtypes()) {
    for (int64_t filled = 1; filled <= kCapacity; filled += 3) {
      const AttentionShape shape{2, filled, 4, 2, 10};
      const Tensor q = random_tensor({2, 40}, dtype, 1, s.stream);
      const Tensor keys = random_tensor({2, kCapacity, 20}, dtype, 2, s.stream);
      const Tensor values = random_tensor({2, kCapacity, 20}, dtype, 3, s.stream);
      Tensor y = Tensor::empty({2, 40}, dtype, s.stream);
      attention_decode(s.stream, {shape}, q, keys, values, kCapacity, y);
      const Values vq = values_of(q), vk = values_of(keys), vv = values_of(values);
      Values expected(80, 0.0);
      for (size_t b = 0; b < 2; ++b) {
        for (size_t head = 0; head < 4; ++head) {
          const size_t group = head / 2;
          Values scores(static_cast<size_t>(filled));
          for (size_t t = 0; t < scores.size(); ++t) {
            const size_t row = (b * kCapacity + t) * 20 + group * 10;
            for (size_t d = 0; d < 10; ++d) scores[t] += vq[b * 40 + head * 10 + d] * vk[row + d];
            scores[t] /= std::sqrt(10.0);
          }
          const Values shares = softmax(scores, filled);
          for (size_t t = 0; t < scores.size(); ++t) {
            const size_t row = (b * kCapacity + t) * 20 + group * 10;
            for (size_t d = 0; d < 10; ++d) {
              expected[b * 40 + head * 10 + d] += shares[t] * vv[row + d];
            }
          }
        }
      }
      CAPTURE(name_of(dtype), filled);
      REQUIRE(error_of(y, expected) < 2 * tolerance_of(dtype));
    }
  }
}

TEST_CASE("a gated unit of any width follows its formula", "[kernels][device]") {
  TestStream s(3);
  for (const DType dtype : float_dtypes()) {
    for (const int64_t width : {1, 2, 15, 16, 17, 33, 100}) {
      for (const int64_t rows : {1, 3}) {
        const Tensor gate_up = random_tensor({rows, 2 * width}, dtype, 1, s.stream);
        Tensor y = Tensor::empty({rows, width}, dtype, s.stream);
        glu_forward(s.stream, Activation::kSilu, gate_up, y);
        const Values values = values_of(gate_up);
        Values expected;
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t c = 0; c < width; ++c) {
            const auto gate = static_cast<size_t>(row * 2 * width + c);
            const double g = values[gate];
            expected.push_back(g / (1 + std::exp(-g)) * values[gate + static_cast<size_t>(width)]);
          }
        }
        CAPTURE(name_of(dtype), width, rows);
        REQUIRE(error_of(y, expected) < tolerance_of(dtype));
      }
    }
  }
}

Values numbers_of(const MatrixView& view, const Values& values) {
  Values out;
  for (int64_t row = 0; row < view.rows; ++row) {
    const auto begin = values.begin() + view.offset + row * view.row_stride;
    out.insert(out.end(), begin, begin + view.columns);
  }
  return out;
}

TEST_CASE("distillation of any views matches the formulas and writes nothing beside the gradients",
          "[kernels][device]") {
  TestStream s(3);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Draws draw(seed);
    const DType dtype = float_dtypes()[seed % 3];
    const DType of_teacher = float_dtypes()[to_size(draw(0, 2))];
    const int64_t rows = draw(1, 9), columns = draw(1, 300);
    const MatrixView logits = random_view(rows, columns, dtype, 1, draw, s.stream);
    const MatrixView teacher = random_view(rows, draw(1, columns), of_teacher, 2, draw, s.stream);
    const std::vector<int32_t> targets = distilled_targets(rows, columns);
    DistilledCrossEntropyArgs args =
        distilled_args(logits.tensor.narrow(0, rows), teacher.tensor.narrow(0, rows), targets,
                       {.temperature = 0.5 * static_cast<double>(draw(1, 8))}, s.stream);
    args.student.logits = logits;
    args.student.gradients = dtype;
    args.teacher = teacher;
    Values before = values_of(logits.tensor);
    const Distilled expected = distilled({.student = numbers_of(logits, before),
                                          .teacher = numbers_of(teacher, values_of(teacher.tensor)),
                                          .columns = columns,
                                          .teacher_columns = teacher.columns,
                                          .targets = targets,
                                          .grad_scale = double{args.student.grad_scale}},
                                         args.rule);
    distilled_cross_entropy(s.stream, args);
    CAPTURE(seed, name_of(dtype), name_of(of_teacher), rows, columns, teacher.columns);
    const Values after = values_of(logits.tensor);
    const Values gradients = numbers_of(logits, after);
    REQUIRE(error_of(args.student.losses, expected.losses) < 5e-6);
    REQUIRE(error_of(tensor_of(gradients, {rows, columns}, dtype, s.stream), expected.gradients) <
            tolerance_of(dtype));
    for (int64_t row = 0; row < rows; ++row) {
      const auto at = logits.offset + row * logits.row_stride;
      std::copy_n(after.begin() + at, columns, before.begin() + at);
    }
    REQUIRE(after == before);
  }
}

TEST_CASE("losses of hidden states of any width follow their formula", "[kernels][device]") {
  TestStream s(3);
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Draws draw(seed);
    const DType dtype = float_dtypes()[seed % 3];
    const DType of_teacher = float_dtypes()[to_size(draw(0, 2))];
    const int64_t rows = draw(1, 20), width = draw(1, 400);
    const HiddenLossArgs args{
        .student = random_tensor({rows, width}, dtype, 1, s.stream),
        .teacher = random_tensor({rows, width}, of_teacher, 2, s.stream),
        .targets = tokens_of(std::vector<int32_t>(to_size(rows), 1), s.stream),
        .losses = Tensor::empty({rows}, DType::kF32, s.stream),
        .dstudent = Tensor::empty({rows, width}, dtype, s.stream)};
    hidden_loss(s.stream, args);
    const Values student = values_of(args.student), teacher = values_of(args.teacher);
    Values losses(to_size(rows)), slopes(student.size());
    for (size_t i = 0; i < student.size(); ++i) {
      const double apart = student[i] - teacher[i];
      losses[i / to_size(width)] += apart * apart / static_cast<double>(width);
      slopes[i] = 2 * apart / static_cast<double>(width);
    }
    CAPTURE(seed, name_of(dtype), name_of(of_teacher), rows, width);
    REQUIRE(error_of(args.losses, losses) < 1e-6);
    REQUIRE(error_of(args.dstudent, slopes) < tolerance_of(dtype));
  }
}

TEST_CASE("dropout of nothing is a copy, and any part of a tensor is dropped as in the whole",
          "[kernels][device]") {
  TestStream s(3);
  testing::PlacedInputs inputs(Rng(6, "dropout"), 0, s.stream);
  for (const DType dtype : float_dtypes()) {
    const Tensor x = random_tensor({5000}, dtype, 1, s.stream);
    Tensor whole = Tensor::empty({5000}, dtype, s.stream);
    dropout(s.stream, x, 0, inputs.mask(), 1, whole);
    CHECK(same_bits(whole, x));
    inputs.set({.dropout = Rng(6, "dropout"), .first_sample = 1000});
    dropout(s.stream, x, 0.25F, inputs.mask(), 1, whole);
    Tensor part = Tensor::empty({777}, dtype, s.stream);
    inputs.set({.dropout = Rng(6, "dropout"), .first_sample = 1123});
    dropout(s.stream, x.narrow(123, 777), 0.25F, inputs.mask(), 1, part);
    CHECK(same_bits(part, whole.narrow(123, 777)));
    const Values kept = values_of(whole);
    const auto dropped = std::ranges::count(kept, 0.0);
    CHECK(std::abs(static_cast<double>(dropped) - 1250) < 5 * 31);
  }
}

}  // namespace
}  // namespace ds::kernels
