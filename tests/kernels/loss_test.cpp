// Softmax, the fused projection and cross entropy, and embeddings, against the fp64 reference.
#include <cmath>
#include <limits>

#include "core/memory/adaptors.h"
#include "kernels/embedding/embedding.h"
#include "kernels/matmul/matmul.h"
#include "kernels/softmax/softmax.h"
#include "tests/support/catch.h"
#include "tests/support/gradcheck.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

struct LossRun {
  std::vector<int32_t> targets;
  LinearCrossEntropyArgs args;
};

LossRun loss_run(int64_t rows, int64_t width, int64_t vocabulary, DType dtype, Stream& stream) {
  LossRun r;
  for (int64_t i = 0; i < rows; ++i) r.targets.push_back(static_cast<int32_t>(i * 7 % vocabulary));
  if (rows > 2) r.targets[2] = -100;
  r.args = {.x = random_tensor({rows, width}, dtype, 1, stream),
            .weight = random_tensor({vocabulary, width}, dtype, 2, stream, 0.3),
            .targets = tokens_of(r.targets, stream),
            .losses = Tensor::empty({rows}, DType::kF32, stream),
            .grad_scale = 0.25F,
            .dx = Tensor::empty({rows, width}, dtype, stream),
            .dweight = Tensor::empty({vocabulary, width}, DType::kF32, stream)};
  return r;
}

LossRun biased_run(int64_t rows, int64_t width, int64_t vocabulary, DType dtype, Stream& stream) {
  LossRun r = loss_run(rows, width, vocabulary, dtype, stream);
  r.args.bias = random_tensor({vocabulary}, dtype, 5, stream);
  r.args.dbias = Tensor::empty({vocabulary}, DType::kF32, stream);
  return r;
}

// More rows than a block has on a CPU; few where kernels are emulated.
struct ManyRows {
  int64_t rows, vocabulary;
};
ManyRows many_rows(const Stream& stream) {
  if (stream.device() == Device::cpu()) return {.rows = 1100, .vocabulary = 600};
  return {.rows = 40, .vocabulary = 50};
}

// Losses are fp32; logits may have been rounded to 16 bits before.
double loss_tolerance(DType x, const Stream& stream) {
  return logits_dtype(stream.device(), x) == DType::kF32 ? 3e-6 : 2 * tolerance_of(x);
}

double total(const Values& v) { return dot(v, Values(v.size(), 1.0)); }

}  // namespace

TEST_CASE("the fused projection caps logits, and its gradients are numeric ones",
          "[kernels][device]") {
  TestStream s;
  constexpr double kCap = 0.7;
  constexpr int64_t kWidth = 9, kVocabulary = 17, kRows = 5;
  LossRun r = loss_run(kRows, kWidth, kVocabulary, DType::kF32, s.stream);
  r.args.softcap = static_cast<float>(kCap);
  linear_cross_entropy(s.stream, r.args);
  const Values x = values_of(r.args.x), weight = values_of(r.args.weight);
  const auto losses = [&](const Values& of_x, const Values& of_weight) {
    Values logits = reference::matmul(of_x, of_weight, kRows, kVocabulary, kWidth, false, true);
    for (double& v : logits) v = double{r.args.softcap} * std::tanh(v / double{r.args.softcap});
    const Values p = reference::softmax(logits, kVocabulary);
    Values out(static_cast<size_t>(kRows));
    for (size_t row = 0; row < out.size(); ++row) {
      const int32_t target = r.targets[row];
      if (target < 0) continue;
      out[row] = -std::log(p[row * kVocabulary + static_cast<size_t>(target)]);
    }
    return out;
  };
  REQUIRE(error_of(r.args.losses, losses(x, weight)) < 3e-6);
  REQUIRE(error_of(r.args.dx, numeric_gradient(
                                  [&](const Values& v) { return 0.25 * total(losses(v, weight)); },
                                  x)) < 1e-5);
  REQUIRE(error_of(r.args.dweight,
                   numeric_gradient([&](const Values& v) { return 0.25 * total(losses(x, v)); },
                                    weight)) < 1e-5);
}

TEST_CASE("losses and gradients of the fused projection match the reference", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t vocabulary : {2, 17, 50}) {
      LossRun r = loss_run(5, 9, vocabulary, dtype, s.stream);
      linear_cross_entropy(s.stream, r.args);
      const Values x = values_of(r.args.x), weight = values_of(r.args.weight);
      INFO(name_of(dtype) << " V " << vocabulary);
      REQUIRE(error_of(r.args.losses, reference::cross_entropy(x, weight, r.targets, 9)) <
              loss_tolerance(dtype, s.stream));
      REQUIRE(values_of(r.args.losses)[2] == 0);
      const auto dx = numeric_gradient(
          [&](const Values& v) {
            return 0.25 * total(reference::cross_entropy(v, weight, r.targets, 9));
          },
          x);
      const auto dw = numeric_gradient(
          [&](const Values& v) {
            return 0.25 * total(reference::cross_entropy(x, v, r.targets, 9));
          },
          weight);
      REQUIRE(error_of(r.args.dx, dx) < 2 * tolerance_of(dtype));
      REQUIRE(error_of(r.args.dweight, dw) < 2 * tolerance_of(dtype));
      r.args.write_dweight = Write::kAccumulate;
      linear_cross_entropy(s.stream, r.args);
      Values twice = dw;
      for (double& v : twice) v *= 2;
      REQUIRE(error_of(r.args.dweight, twice) < 2 * tolerance_of(dtype));
    }
  }
}

TEST_CASE("a bias of logits is a column of weights that every row has a one for",
          "[kernels][device]") {
  TestStream s;
  const auto [rows, vocabulary] = many_rows(s.stream);
  const int64_t width = 9;
  for (const DType dtype : float_dtypes()) {
    CAPTURE(name_of(dtype));
    LossRun biased = biased_run(rows, width, vocabulary, dtype, s.stream);
    LossRun wide = loss_run(rows, width + 1, vocabulary, dtype, s.stream);
    const auto widened = [&](const Tensor& narrow, const Values& column) {
      const Values given = values_of(narrow);
      Values out;
      for (size_t row = 0; row < column.size(); ++row) {
        const auto begin = given.begin() + static_cast<ptrdiff_t>(row) * width;
        out.insert(out.end(), begin, begin + width);
        out.push_back(column[row]);
      }
      return tensor_of(out, {std::ssize(column), width + 1}, dtype, s.stream);
    };
    wide.args.x = widened(biased.args.x, Values(to_size(rows), 1.0));
    wide.args.weight = widened(biased.args.weight, values_of(biased.args.bias));
    linear_cross_entropy(s.stream, wide.args);
    linear_cross_entropy(s.stream, biased.args);
    const double tolerance = 2 * tolerance_of(dtype);
    CHECK(error_of(biased.args.losses, values_of(wide.args.losses)) <
          2 * loss_tolerance(dtype, s.stream));
    const Values of_wide = values_of(wide.args.dweight);
    Values dbias;
    for (size_t word = 0; word < to_size(vocabulary); ++word) {
      dbias.push_back(of_wide[word * to_size(width + 1) + to_size(width)]);
    }
    CHECK(error_of(biased.args.dbias, dbias) < tolerance);
    biased.args.write_dbias = biased.args.write_dweight = Write::kAccumulate;
    linear_cross_entropy(s.stream, biased.args);
    for (double& v : dbias) v *= 2;
    CHECK(error_of(biased.args.dbias, dbias) < tolerance);
  }
}

TEST_CASE("a head's other gradients are the same where one of its parameters is frozen",
          "[kernels][device]") {
  TestStream s;
  const auto [rows, vocabulary] = many_rows(s.stream);
  const int64_t width = 9;
  for (const DType dtype : float_dtypes()) {
    CAPTURE(name_of(dtype));
    LossRun all = biased_run(rows, width, vocabulary, dtype, s.stream);
    linear_cross_entropy(s.stream, all.args);
    for (const bool weight_trains : {false, true}) {
      for (const bool bias_trains : {false, true}) {
        CAPTURE(weight_trains, bias_trains);
        LossRun some = loss_run(rows, width, vocabulary, dtype, s.stream);
        some.args.bias = all.args.bias;
        if (bias_trains) some.args.dbias = Tensor::empty({vocabulary}, DType::kF32, s.stream);
        if (!weight_trains) some.args.dweight = {};
        linear_cross_entropy(s.stream, some.args);
        CHECK(same_bits(some.args.losses, all.args.losses));
        CHECK(same_bits(some.args.dx, all.args.dx));
        if (weight_trains) CHECK(same_bits(some.args.dweight, all.args.dweight));
        if (bias_trains) {
          CHECK(error_of(some.args.dbias, values_of(all.args.dbias)) < tolerance_of(dtype));
        }
      }
    }
  }
}

TEST_CASE("losses and gradients are multiplied by the weights of rows", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    const auto [rows, vocabulary] = many_rows(s.stream);
    LossRun plain = loss_run(rows, 9, vocabulary, dtype, s.stream);
    linear_cross_entropy(s.stream, plain.args);
    const Values losses = values_of(plain.args.losses), dx = values_of(plain.args.dx);
    Values weights, expected, expected_dx;
    for (size_t row = 0; row < to_size(rows); ++row) {
      weights.push_back(static_cast<double>(row % 4) / 2);  // 0, a half, 1, one and a half
      expected.push_back(losses[row] * weights[row]);
      for (size_t c = 0; c < 9; ++c) expected_dx.push_back(dx[row * 9 + c] * weights[row]);
    }
    LossRun weighed = loss_run(rows, 9, vocabulary, dtype, s.stream);
    weighed.args.row_weights = tensor_of(weights, {rows}, DType::kF32, s.stream);
    linear_cross_entropy(s.stream, weighed.args);
    CAPTURE(name_of(dtype));
    CHECK(error_of(weighed.args.losses, expected) < 1e-6);
    CHECK(error_of(weighed.args.dx, expected_dx) < 2 * tolerance_of(dtype));
    CHECK(values_of(weighed.args.losses)[4] == 0);
    const Values again = values_of(weighed.args.losses);
    weighed.args.dx = weighed.args.dweight = {};
    linear_cross_entropy(s.stream, weighed.args);
    CHECK(values_of(weighed.args.losses) == again);
    weighed.args.row_weights = tensor_of(Values(to_size(rows), 1.0), {rows}, DType::kF32, s.stream);
    linear_cross_entropy(s.stream, weighed.args);
    CHECK(values_of(weighed.args.losses) == losses);
  }
}

TEST_CASE("a row of weight 0 is ignored, whatever its loss", "[kernels][device]") {
  TestStream s;
  const double infinity = std::numeric_limits<double>::infinity();
  for (const bool backward : {false, true}) {
    SoftmaxCrossEntropyArgs args{
        .logits = matrix(tensor_of({0, infinity, 1, 2}, {2, 2}, DType::kF32, s.stream), 2, 2),
        .targets = tokens_of({0, 1}, s.stream),
        .row_weights = tensor_of({0, 2}, {2}, DType::kF32, s.stream),
        .losses = Tensor::empty({2}, DType::kF32, s.stream)};
    if (backward) args.gradients = DType::kF32;
    softmax_cross_entropy(s.stream, args);
    const Values losses = values_of(args.losses);
    CHECK(losses[0] == 0);
    CHECK(losses[1] == Approx(2 * std::log(1 + std::exp(-1.0))).epsilon(1e-6));
    if (!backward) continue;
    const Values gradients = values_of(args.logits.tensor);
    CHECK(gradients[0] == 0);
    CHECK(gradients[1] == 0);
    CHECK(gradients[2] == Approx(2 / (1 + std::exp(1.0))).epsilon(1e-6));
  }
}

TEST_CASE("evaluation needs no gradients and gives the same losses", "[kernels][device]") {
  TestStream s;
  LossRun r = loss_run(40, 12, 333, DType::kF32, s.stream);
  linear_cross_entropy(s.stream, r.args);
  const Values losses = values_of(r.args.losses);
  r.args.dx = {};
  r.args.dweight = {};
  linear_cross_entropy(s.stream, r.args);
  REQUIRE(values_of(r.args.losses) == losses);
}

TEST_CASE("more rows than a block holds give the same losses and gradients", "[kernels][device]") {
  TestStream s;
  const int64_t vocabulary = s.stream.device() == Device::cpu() ? 600 : 20;
  const int64_t rows = linear_cross_entropy_rows(s.stream.device(), DType::kF32, vocabulary) + 37;
  LossRun r = loss_run(rows, 8, vocabulary, DType::kF32, s.stream);
  linear_cross_entropy(s.stream, r.args);
  const Values x = values_of(r.args.x), weight = values_of(r.args.weight);
  REQUIRE(error_of(r.args.losses, reference::cross_entropy(x, weight, r.targets, 8)) < 3e-6);
  Values p = reference::softmax(reference::matmul(x, weight, rows, vocabulary, 8, false, true),
                                vocabulary);
  for (size_t row = 0; row < r.targets.size(); ++row) {
    double* values = &p[row * static_cast<size_t>(vocabulary)];
    if (r.targets[row] >= 0) values[r.targets[row]] -= 1.0;
    for (int64_t v = 0; v < vocabulary; ++v) values[v] *= r.targets[row] >= 0 ? 0.25 : 0.0;
  }
  REQUIRE(error_of(r.args.dx, reference::matmul(p, weight, rows, 8, vocabulary, false, false)) <
          1e-5);
  REQUIRE(error_of(r.args.dweight, reference::matmul(p, x, vocabulary, 8, rows, true, false)) <
          1e-5);
}

TEST_CASE("a block of logits is as long as the device's budget allows, in whole tiles",
          "[kernels]") {
  const auto check_fit = [](Device device, DType x, int64_t of_logit) {
    const int64_t budget = loss_block_bytes(device);
    for (const int64_t vocabulary : {70000, 128256, 262144}) {
      const int64_t rows = linear_cross_entropy_rows(device, x, vocabulary);
      CAPTURE(device.to_string(), name_of(x), vocabulary);
      const int64_t of_row = logits_stride(device, vocabulary) * of_logit;
      CHECK(rows % 32 == 0);
      CHECK(rows * of_row <= budget);
      CHECK((rows + 32) * of_row > budget);
    }
  };
  check_fit(Device::cpu(), DType::kF32, 4);
  check_fit(Device::cpu(), DType::kBF16, 4);
  check_fit(Device::cuda(0), DType::kF32, 4);
  check_fit(Device::cuda(0), DType::kBF16, 2);
  // One tile, whatever it takes.
  CHECK(linear_cross_entropy_rows(Device::cpu(), DType::kF32, 1 << 28) == 32);
  CHECK(linear_cross_entropy_rows(Device::cpu(), DType::kF32, 2) == 1024);
  CHECK(linear_cross_entropy_rows(Device::cuda(0), DType::kF32, 2) == 8192);
}

TEST_CASE("rows of a device's logits all begin at a border, those of the CPU lie end to end",
          "[kernels]") {
  for (const auto& [vocabulary, stride] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 64}, {64, 64}, {50257, 50304}, {128256, 128256}}) {
    CHECK(logits_stride(Device::cuda(0), vocabulary) == stride);
    CHECK(logits_stride(Device::cpu(), vocabulary) == vocabulary);
  }
}

TEST_CASE("on meta the loss has the scratch memory of the device that it stands for", "[kernels]") {
  const auto logits_of = [](Device device, int64_t rows, int64_t vocabulary) {
    MetaMemory memory;
    MemoryAccount account;
    TrackingMemory tracked(memory, account);
    Stream stream({.device = Device::meta(), .memory = &tracked, .stands_for = device});
    const auto scratch = [&](const auto& bytes) {
      return static_cast<int64_t>(bytes.at(static_cast<size_t>(MemoryTag::kScratch)));
    };
    const auto loss_of = [&](int64_t count) {
      const auto empty = [&](const Shape& shape, DType dtype) {
        return Tensor::empty(shape, dtype, stream);
      };
      const int64_t width = 4;
      linear_cross_entropy(stream, {.x = empty({count, width}, DType::kF32),
                                    .weight = empty({vocabulary, width}, DType::kF32),
                                    .targets = empty({count}, DType::kI32),
                                    .losses = empty({count}, DType::kF32)});
    };
    loss_of(1);  // what is taken once stays: of products, and what the device finds
    const int64_t stays = scratch(account.usage().tag_bytes_now);
    loss_of(rows);
    const int64_t bytes = scratch(account.usage().tag_bytes_at_peak) - stays;
    CHECK(bytes % 4 == 0);
    return bytes / 4;
  };
  CHECK(logits_of(Device::cpu(), 3000, 64) == 65536);
  CHECK(logits_of(Device::cuda(0), 3000, 64) == 192000);
  CHECK(logits_of(Device::cpu(), 3000, 65) == 66560);
  CHECK(logits_of(Device::cuda(0), 3000, 65) == 384000);
}

TEST_CASE("a target beyond the vocabulary is a data error that names its row", "[kernels]") {
  TestStream s;
  LossRun r = loss_run(4, 6, 10, DType::kF32, s.stream);
  r.args.targets.data<int32_t>()[3] = 10;
  REQUIRE_THROWS_AS(linear_cross_entropy(s.stream, r.args), DataError);
  REQUIRE_THROWS_WITH(linear_cross_entropy(s.stream, r.args),
                      Catch::Contains("row 3 has target 10"));
  r.args.dx = {};
  REQUIRE_THROWS_WITH(linear_cross_entropy(s.stream, r.args),
                      Catch::Contains("dweight is given without dx"));
}

TEST_CASE("embeddings look up and scatter back, equal tokens summed", "[kernels][device]") {
  TestStream s(3);
  const std::vector<int32_t> tokens{3, 0, 3, 3, 6, 0};
  const Tensor ids = tokens_of(tokens, s.stream), order = order_of(tokens, s.stream);
  for (const DType dtype : float_dtypes()) {
    const Tensor table = random_tensor({7, 33}, dtype, 1, s.stream);
    const Tensor positions = random_tensor({9, 33}, dtype, 2, s.stream);
    const Tensor dy = random_tensor({6, 33}, dtype, 3, s.stream);
    Tensor y = Tensor::empty({6, 33}, dtype, s.stream);
    const Values vt = values_of(table), vp = values_of(positions), vd = values_of(dy);
    Values plain(198), placed(198), dtable(231), dpositions(297);
    for (size_t i = 0; i < plain.size(); ++i) {
      const size_t row = i / 33, column = i % 33, token = static_cast<size_t>(tokens[row]);
      plain[i] = vt[token * 33 + column];
      placed[i] = plain[i] + vp[(4 + row % 3) * 33 + column];
      dtable[token * 33 + column] += vd[i];
      dpositions[row % 3 * 33 + column] += vd[i];
    }
    embedding_forward(s.stream, ids, table, {}, 3, 0, y);
    REQUIRE(error_of(y, plain) == 0);
    embedding_forward(s.stream, ids, table, positions, 3, 4, y);
    REQUIRE(error_of(y, placed) < tolerance_of(dtype));
    for (const DType grad : {dtype, DType::kF32}) {
      Tensor dt = random_tensor({7, 33}, grad, 4, s.stream);
      Tensor dp = random_tensor({9, 33}, grad, 4, s.stream);
      embedding_backward(s.stream, order, dy, Write::kOverwrite, dt);
      position_backward(s.stream, dy, 3, Write::kOverwrite, dp);
      REQUIRE(error_of(dt, dtable) < tolerance_of(grad));
      REQUIRE(error_of(dp, dpositions) < tolerance_of(grad));
      embedding_backward(s.stream, order, dy, Write::kAccumulate, dt);
      Values twice = dtable;
      for (double& v : twice) v *= 2;
      REQUIRE(error_of(dt, twice) < tolerance_of(grad));
    }
  }
}

TEST_CASE("a token beyond the vocabulary is a data error that names its row", "[kernels]") {
  TestStream s;
  const Tensor table = random_tensor({7, 4}, DType::kF32, 1, s.stream);
  Tensor y = Tensor::empty({2, 4}, DType::kF32, s.stream);
  const Tensor ids = tokens_of({1, 7}, s.stream);
  REQUIRE_THROWS_AS(embedding_forward(s.stream, ids, table, {}, 2, 0, y), DataError);
  REQUIRE_THROWS_WITH(embedding_forward(s.stream, ids, table, {}, 2, 0, y),
                      Catch::Contains("row 1 has token 7, expected 0 <= token < 7"));
  const Tensor positions = random_tensor({1, 4}, DType::kF32, 1, s.stream);
  REQUIRE_THROWS_WITH(embedding_forward(s.stream, ids, table, positions, 2, 0, y),
                      Catch::Contains("positions [0, 2) of 1"));
  Tensor dtable = tensor_of(Values(28, 7.0), {7, 4}, DType::kF32, s.stream);
  REQUIRE_THROWS_AS(
      embedding_backward(s.stream, token_order(s.stream, ids), y, Write::kOverwrite, dtable),
      DataError);
  REQUIRE_THROWS_WITH(
      embedding_backward(s.stream, tokens_of({0, 2, 1, 1}, s.stream), y, Write::kOverwrite, dtable),
      Catch::Contains("place 1 of the order is row 2, expected 0 <= row < 2"));
  REQUIRE(values_of(dtable) == Values(28, 7.0));
}

TEST_CASE("tokens are sorted with their rows, rows of one token in their order", "[kernels]") {
  std::vector<int32_t> order(12);
  sort_tokens(std::vector<int32_t>{3, 0, 3, 3, 6, 0}, order);
  CHECK(order == std::vector<int32_t>{1, 5, 0, 2, 3, 4, 0, 0, 3, 3, 3, 6});
  CHECK_THROWS_WITH(sort_tokens(std::vector<int32_t>{1}, order), Catch::Contains("expected 2"));
}

TEST_CASE("embeddings of misaligned tables have the bits of aligned ones", "[kernels][device]") {
  TestStream s;
  std::vector<int32_t> tokens(300);  // more rows of a token than are read at a time
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i % 5);
  const Tensor ids = tokens_of(tokens, s.stream), order = order_of(tokens, s.stream);
  for (const DType dtype : float_dtypes()) {
    for (const int64_t width : {8, 31, 32, 264, 2056, 2057}) {
      if (width > 300 && dtype == DType::kF16) continue;  // as bf16
      CAPTURE(name_of(dtype), width);
      const Tensor room = random_tensor({1 + 5 * width}, dtype, 1, s.stream);
      const Tensor apart = room.narrow(1, 5 * width).reshape({5, width});
      const Tensor aligned = tensor_of(values_of(apart), {5, width}, dtype, s.stream);
      Tensor y = Tensor::empty({300, width}, dtype, s.stream);
      Tensor other = Tensor::empty({300, width}, dtype, s.stream);
      embedding_forward(s.stream, ids, apart, aligned, 5, 0, y);
      embedding_forward(s.stream, ids, aligned, aligned, 5, 0, other);
      REQUIRE(same_bits(y, other));
      for (const Write write : {Write::kOverwrite, Write::kAccumulate}) {
        Tensor table = tensor_of(values_of(apart), {5, width}, dtype, s.stream);
        Tensor beside = random_tensor({1 + 5 * width}, dtype, 1, s.stream);
        Tensor there = beside.narrow(1, 5 * width).reshape({5, width});
        embedding_backward(s.stream, order, y, write, table);
        embedding_backward(s.stream, order, y, write, there);
        REQUIRE(same_bits(table, there));
        position_backward(s.stream, y, 4, write, table);
        position_backward(s.stream, y, 4, write, there);
        REQUIRE(same_bits(table, there));
      }
    }
  }
}

TEST_CASE("a GPU reads nothing for tokens and rows that do not exist", "[kernels][device]") {
  TestStream s;
  if (s.stream.device() == Device::cpu()) return;  // where they throw
  const Tensor table = tensor_of(Values(12, 2.0), {3, 4}, DType::kF32, s.stream);
  Tensor y = Tensor::empty({3, 4}, DType::kF32, s.stream);
  embedding_forward(s.stream, tokens_of({1, 3, -1}, s.stream), table, {}, 3, 0, y);
  CHECK(values_of(y.narrow(0, 4)) == Values(4, 2.0));
  for (const double v : values_of(y.narrow(4, 8))) CHECK(std::isnan(v));
  const Tensor dy = tensor_of(Values(12, 1.0), {3, 4}, DType::kF32, s.stream);
  const Tensor order = tokens_of({2, 0, 7, -1, 1, 1}, s.stream);
  Tensor dtable = tensor_of(Values(12, 5.0), {3, 4}, DType::kF32, s.stream);
  embedding_backward(s.stream, order, dy, Write::kAccumulate, dtable);
  CHECK(values_of(dtable) == Values{5, 5, 5, 5, 6, 6, 6, 6, 5, 5, 5, 5});
}

TEST_CASE("embeddings of no tokens do nothing", "[kernels][device]") {
  TestStream s;
  const Tensor table = tensor_of(Values(12, 2.0), {3, 4}, DType::kF32, s.stream);
  Tensor none = Tensor::zeros({0, 4}, DType::kF32, s.stream);
  Tensor dpositions = tensor_of(Values(12, 2.0), {3, 4}, DType::kF32, s.stream);
  CHECK_NOTHROW(embedding_forward(s.stream, Tensor::zeros({0}, DType::kI32, s.stream), table, table,
                                  3, 0, none));
  position_backward(s.stream, none, 3, Write::kAccumulate, dpositions);
  CHECK(values_of(dpositions) == Values(12, 2.0));
  position_backward(s.stream, none, 3, Write::kOverwrite, dpositions);
  CHECK(values_of(dpositions) == Values(12, 0.0));
}

}  // namespace ds::kernels
