// Every kernel of a training step over its ceiling: bytes and FLOPs are what the front functions
// report, the ceilings what a copy and a large product of bf16 reach on the same device, measured
// first. Prints one JSON object per kernel; of_ceiling is the time that the slower of both ceilings
// allows over the time it took. --tiny: that everything runs, and no figure to be used.
#include <algorithm>

#include "core/values/index.h"
#include "core/values/rng.h"
#include "kernels/attention/attention.h"
#include "kernels/elementwise/activation.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/scaling.h"
#include "kernels/embedding/embedding.h"
#include "kernels/matmul/matmul.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/optimizer/update.h"
#include "kernels/reduce/dots.h"
#include "kernels/reduce/reduce.h"
#include "kernels/rotary/rope.h"
#include "kernels/softmax/distillation.h"
#include "kernels/softmax/softmax.h"
#include "tests/bench/device/bench_device.h"
#include "tests/support/step_numbers.h"

namespace ds::bench {
namespace {

using kernels::Write;

// What one layer of a model of that width is given at once, and the shard that is updated.
struct Sizes {
  int64_t batch = 16, length = 1024;
  int64_t heads = 12, head_dim = 64;
  int64_t vocabulary = 50257;
  int64_t shard = int64_t{124} << 20;

  int64_t rows() const { return batch * length; }
  int64_t width() const { return heads * head_dim; }
};
constexpr Sizes kTinySizes{
    .batch = 2, .length = 16, .heads = 2, .head_dim = 16, .vocabulary = 50, .shard = 1000};

class KernelBench {
 public:
  KernelBench(BenchDevice& on, const Ceilings& ceilings, const Duration& duration)
      : on_(on), ceilings_(ceilings), duration_(duration) {}

  void operator()(const std::string& kernel, const std::function<void()>& work) const {
    on_.cost.take();
    work();
    const OpCost cost = on_.cost.take();
    const double seconds = seconds_of(on_.stream, work, duration_);
    const double allowed =
        std::max(cost.bytes / ceilings_.bytes_per_s, cost.flops / ceilings_.flops_per_s);
    fmt::print(
        "{{\"kernel\": \"{}\", \"us\": {:.2f}, \"gb_s\": {:.3f}, \"tflop_s\": {:.6f}, "
        "\"of_ceiling\": {:.3f}}}\n",
        kernel, 1e6 * seconds, 1e-9 * cost.bytes / seconds, 1e-12 * cost.flops / seconds,
        allowed / seconds);
  }

  Stream& stream() const { return on_.stream; }

 private:
  BenchDevice& on_;
  const Ceilings& ceilings_;
  const Duration& duration_;
};

Tensor random_tokens(Stream& stream, int64_t count, int64_t vocabulary) {
  std::vector<int32_t> tokens(to_size(count));
  const Rng rng(2, "tokens");
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(rng.bits(i) % static_cast<uint64_t>(vocabulary));
  }
  Tensor tensor = Tensor::empty({count}, DType::kI32, stream);
  stream.copy(tokens.data(), tensor.address(), tensor.bytes());
  return tensor;
}

Tensor room(Stream& stream, const Shape& shape, DType dtype = DType::kBF16) {
  return Tensor::zeros(shape, dtype, stream);
}

void products(const KernelBench& bench, const Sizes& sizes) {
  struct Case {
    const char* what;
    int64_t m, n, k;
    kernels::Transpose transpose_a, transpose_b;
  };
  const auto no = kernels::Transpose::kNo, yes = kernels::Transpose::kYes;
  const int64_t rows = sizes.rows(), width = sizes.width();
  const std::vector<Case> cases{{"matmul qkv", rows, 3 * width, width, no, no},
                                {"matmul attention out", rows, width, width, no, no},
                                {"matmul mlp up", rows, 4 * width, width, no, no},
                                {"matmul mlp down", rows, width, 4 * width, no, no},
                                {"matmul mlp up dx", rows, width, 4 * width, no, yes},
                                {"matmul mlp up dw", width, 4 * width, rows, yes, no}};
  Stream& s = bench.stream();
  for (const Case& c : cases) {
    const bool ta = c.transpose_a == yes, tb = c.transpose_b == yes;
    const Tensor a = random_numbers(s, {c.m * c.k}), b = random_numbers(s, {c.k * c.n}),
                 y = room(s, {c.m * c.n});
    const kernels::MatmulArgs args{.a = kernels::matrix(a, ta ? c.k : c.m, ta ? c.m : c.k),
                                   .b = kernels::matrix(b, tb ? c.n : c.k, tb ? c.k : c.n),
                                   .c = kernels::matrix(y, c.m, c.n),
                                   .transpose_a = c.transpose_a,
                                   .transpose_b = c.transpose_b};
    bench(c.what, [&] { kernels::matmul(s, args); });
  }
}

void attention(const KernelBench& bench, const Sizes& sizes) {
  Stream& s = bench.stream();
  const kernels::AttentionShape shape{.batch = sizes.batch,
                                      .length = sizes.length,
                                      .heads = sizes.heads,
                                      .kv_heads = sizes.heads,
                                      .head_dim = sizes.head_dim};
  const int64_t rows = sizes.rows();
  Tensor qkv = random_numbers(s, {rows, shape.packed()});
  const Tensor dy = random_numbers(s, {rows, sizes.width()});
  Tensor y = room(s, {rows, sizes.width()}), dqkv = room(s, {rows, shape.packed()});
  Tensor log_sum_exp = room(s, {rows * sizes.heads}, DType::kF32);
  bench("attention", [&] { kernels::attention_forward(s, {shape}, qkv, y, log_sum_exp); });
  bench("attention backward",
        [&] { kernels::attention_backward(s, {shape}, qkv, y, log_sum_exp, dy, dqkv); });
  kernels::RotaryTable turns;
  for (int64_t j = 0; j < shape.head_dim / 2; ++j) {
    turns.frequencies.push_back(1.0F / static_cast<float>(1 + j));
  }
  bench("rope", [&] { kernels::rope(s, shape, turns, {}, kernels::Rotation::kForward, qkv); });
}

void norms(const KernelBench& bench, const Sizes& sizes) {
  Stream& s = bench.stream();
  const int64_t rows = sizes.rows(), width = sizes.width();
  const Tensor x = random_numbers(s, {rows, width}), residual = random_numbers(s, {rows, width});
  const Tensor gamma = random_numbers(s, {width}), beta = random_numbers(s, {width});
  Tensor y = room(s, {rows, width}), sum = room(s, {rows, width}), dx = room(s, {rows, width});
  Tensor mean = room(s, {rows}, DType::kF32), inverse = room(s, {rows}, DType::kF32);
  kernels::LayerNormGrads both{.dgamma = room(s, {width}), .dbeta = room(s, {width})};
  kernels::LayerNormGrads one{.dgamma = room(s, {width})};
  bench("layer_norm", [&] { kernels::layer_norm(s, x, gamma, beta, 1e-5F, y, mean, inverse); });
  bench("add_layer_norm", [&] {
    kernels::add_layer_norm(s, x, residual, gamma, beta, 1e-5F, sum, y, mean, inverse);
  });
  bench("layer_norm backward",
        [&] { kernels::layer_norm_backward(s, x, gamma, mean, inverse, y, residual, dx, both); });
  bench("add_rms_norm",
        [&] { kernels::add_rms_norm(s, x, residual, gamma, 1e-5F, sum, y, inverse); });
  bench("rms_norm backward",
        [&] { kernels::rms_norm_backward(s, x, gamma, inverse, y, residual, dx, one); });
}

// What the magnitudes of DoRA pass over.
void magnitudes(const KernelBench& bench, const Tensor& x, const Tensor& dy, const Tensor& y) {
  Stream& s = bench.stream();
  const int64_t rows = x.shape()[0], columns = x.shape()[1];
  const kernels::MatrixView of_x = kernels::matrix(x, rows, columns),
                            of_dy = kernels::matrix(dy, rows, columns),
                            of_y = kernels::matrix(y, rows, columns);
  Tensor of_rows = room(s, {rows}, DType::kF32), of_columns = room(s, {columns}, DType::kF32);
  bench("row_dots", [&] { kernels::row_dots(s, of_x, of_dy, Write::kOverwrite, of_rows); });
  bench("column_dots",
        [&] { kernels::column_dots(s, of_x, of_dy, Write::kOverwrite, of_columns); });
  bench("scale_columns", [&] { kernels::scale_columns(s, of_x, of_columns, {}, of_y); });
}

void streams(const KernelBench& bench, const Sizes& sizes) {
  Stream& s = bench.stream();
  const int64_t rows = sizes.rows(), inner = 4 * sizes.width();
  const Tensor x = random_numbers(s, {rows, inner}), dy = random_numbers(s, {rows, inner});
  const Tensor half_dy = random_numbers(s, {rows, inner / 2});
  Tensor y = room(s, {rows, inner}), half = room(s, {rows, inner / 2}), columns = room(s, {inner});
  Tensor wide = room(s, {rows, inner}, DType::kF32);
  const testing::PlacedInputs inputs(s);
  const auto gelu = kernels::Activation::kGeluTanh;
  bench("gelu", [&] { kernels::activation_forward(s, gelu, x, y); });
  bench("gelu backward", [&] { kernels::activation_backward(s, gelu, x, dy, y); });
  bench("swiglu", [&] { kernels::glu_forward(s, kernels::Activation::kSilu, x, half); });
  bench("swiglu backward",
        [&] { kernels::glu_backward(s, kernels::Activation::kSilu, x, half_dy, y); });
  bench("dropout", [&] { kernels::dropout(s, x, 0.1F, inputs.mask(), inner, y); });
  bench("add", [&] { kernels::add(s, x, dy, y); });
  bench("cast to fp32", [&] { kernels::cast(s, x, wide); });
  bench("column_sum", [&] { kernels::column_sum(s, x, Write::kOverwrite, columns); });
  magnitudes(bench, x, dy, y);
}

void ends(const KernelBench& bench, const Sizes& sizes) {
  Stream& s = bench.stream();
  const int64_t rows = sizes.rows(), width = sizes.width();
  const Tensor table = random_numbers(s, {sizes.vocabulary, width}),
               x = random_numbers(s, {rows, width});
  const Tensor positions = random_numbers(s, {sizes.length, width});
  const Tensor tokens = random_tokens(s, rows, sizes.vocabulary);
  const Tensor order = kernels::token_order(s, tokens);
  Tensor y = room(s, {rows, width}), dtable = room(s, {sizes.vocabulary, width});
  bench("embedding",
        [&] { kernels::embedding_forward(s, tokens, table, positions, sizes.length, 0, y); });
  bench("embedding backward",
        [&] { kernels::embedding_backward(s, order, x, Write::kOverwrite, dtable); });
  const kernels::LinearCrossEntropyArgs loss{.x = x,
                                             .weight = table,
                                             .targets = tokens,
                                             .losses = room(s, {rows}, DType::kF32),
                                             .grad_scale = 1e-4F,
                                             .dx = room(s, {rows, width}),
                                             .dweight = dtable};
  bench("loss with its products", [&] { kernels::linear_cross_entropy(s, loss); });
}

// What the loss with its products is made of, for a block of rows.
void head(const KernelBench& bench, const Sizes& sizes) {
  Stream& s = bench.stream();
  const int64_t words = sizes.vocabulary, width = sizes.width();
  const int64_t rows =
      std::min(sizes.rows(), kernels::linear_cross_entropy_rows(s.device(), DType::kBF16, words));
  const int64_t stride = kernels::logits_stride(s.device(), words);
  const Tensor x = random_numbers(s, {rows, width}), table = random_numbers(s, {words, width});
  const Tensor targets = random_tokens(s, rows, words);
  const Tensor dx = room(s, {rows, width}), dtable = room(s, {words, width});
  const kernels::MatrixView logits{random_numbers(s, {rows, stride}), rows, words, stride, 0};
  const kernels::MatrixView of_x = kernels::matrix(x, rows, width),
                            of_table = kernels::matrix(table, words, width);
  bench("matmul logits", [&] {
    kernels::matmul(
        s, {.a = of_x, .b = of_table, .c = logits, .transpose_b = kernels::Transpose::kYes});
  });
  bench("matmul logits dx", [&] {
    kernels::matmul(s, {.a = logits, .b = of_table, .c = kernels::matrix(dx, rows, width)});
  });
  bench("matmul logits dw", [&] {
    kernels::matmul(s, {.a = logits,
                        .b = of_x,
                        .c = kernels::matrix(dtable, words, width),
                        .transpose_a = kernels::Transpose::kYes});
  });
  const kernels::SoftmaxCrossEntropyArgs loss{.logits = logits,
                                              .targets = targets,
                                              .losses = room(s, {rows}, DType::kF32),
                                              .gradients = DType::kBF16};
  bench("softmax with gradients", [&] { kernels::softmax_cross_entropy(s, loss); });
  const kernels::DistilledCrossEntropyArgs distilled{
      .student = loss,
      .teacher = {random_numbers(s, {rows, stride}), rows, words, stride, 0},
      .rule = {.temperature = 2}};
  bench("distillation with gradients", [&] { kernels::distilled_cross_entropy(s, distilled); });
}

void updates(const KernelBench& bench, const Sizes& sizes) {
  Stream& s = bench.stream();
  const kernels::AdamArgs args{.master = room(s, {sizes.shard}, DType::kF32),
                               .grad = room(s, {sizes.shard}),
                               .exp_avg = room(s, {sizes.shard}, DType::kF32),
                               .exp_avg_sq = room(s, {sizes.shard}, DType::kF32),
                               .copy = room(s, {sizes.shard})};
  StepScalars scalars(1, s);
  scalars.upload({.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999}, 0);
  bench("adam_update", [&] { kernels::adam_update(s, args, scalars); });
  bench("sum_of_squares",
        [&] { kernels::sum_of_squares_into(s, args.grad, Write::kOverwrite, scalars.squares()); });
}

void run(const DeviceArgs& args) {
  const Sizes sizes = args.tiny ? kTinySizes : Sizes{};
  const CeilingSizes ceiling_sizes = args.tiny ? kTinyCeilings : CeilingSizes{};
  const Duration duration = args.tiny ? kOnce : Duration{};
  BenchDevice on(args.device, args.tiny ? size_t{160} << 20 : size_t{12} << 30);
  const Ceilings ceilings = measure_ceilings(on.stream, ceiling_sizes, duration);
  const KernelBench bench(on, ceilings, duration);
  for (const auto part : {products, attention, norms, streams, ends, head, updates})
    part(bench, sizes);
}

}  // namespace
}  // namespace ds::bench

int main(int argc, char** argv) {
  return ds::bench::device_program(
      {.name = "device_kernels", .about = "Kernels of a training step over their ceilings"}, argc,
      argv, ds::bench::run);
}
