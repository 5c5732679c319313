// Speed of the kernels of a GPT-2 124M step. Every line is measured in rounds that take its
// baseline in turn, and reports the median of the rounds' ratios: this machine's speed drifts by
// more than what is compared. Usage: kernels_bench [threads] [rounds].
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/values/index.h"
#include "core/values/rng.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_cpu.h"
#include "kernels/cpu/simd.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/spans.h"
#include "kernels/matmul/gemm.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/optimizer/update.h"
#include "kernels/softmax/softmax.h"
#include "tests/bench/kernels/rounds.h"

namespace ds::kernels {
namespace {

using ds::bench::compare;
using ds::bench::Rounds;
using ds::bench::Work;

struct Product {
  Tensor a, b, c;
  detail::Gemm gemm;
  double giga_flops;
};

Product product(Stream& s, DType dtype, int64_t m, int64_t n, int64_t k, Transpose ta,
                Transpose tb) {
  Product p{.a = Tensor::zeros({m * k}, dtype, s),
            .b = Tensor::zeros({k * n}, dtype, s),
            .c = Tensor::zeros({m * n}, dtype, s),
            .gemm = {},
            .giga_flops = 2e-9 * static_cast<double>(m * n) * static_cast<double>(k)};
  p.gemm.m = m;
  p.gemm.n = n;
  p.gemm.k = k;
  p.gemm.a = {p.a.raw(), dtype, ta == Transpose::kYes ? m : k, ta};
  p.gemm.b = {p.b.raw(), dtype, tb == Transpose::kYes ? k : n, tb};
  p.gemm.c = {p.c.raw(), dtype, n, Transpose::kNo};
  return p;
}

void bench_products(Rounds& bench, DType dtype) {
  struct Case {
    const char* what;
    int64_t m, n, k;
    Transpose ta, tb;
  };
  const auto no = Transpose::kNo;
  const auto yes = Transpose::kYes;
  const std::vector<Case> cases{
      {"attention out", 256, 768, 768, no, no}, {"mlp up", 256, 3072, 768, no, no},
      {"mlp down", 256, 768, 3072, no, no},     {"mlp up dx", 256, 768, 3072, no, yes},
      {"mlp up dw", 768, 3072, 256, yes, no},   {"mlp up, 1024 tokens", 1024, 3072, 768, no, no},
      {"logits", 256, 50257, 768, no, yes}};
  for (const Case& c : cases) {
    const Product p = product(bench.stream, dtype, c.m, c.n, c.k, c.ta, c.tb);
    if (!detail::onednn_supports(bench.stream, dtype)) return;
    compare(
        bench, fmt::format("{} {} [{} x {} x {}]", name_of(dtype), c.what, c.m, c.n, c.k),
        p.giga_flops, "GFLOP/s", [&] { detail::gemm_packed(bench.stream, p.gemm); }, p.giga_flops,
        "oneDNN", [&] { detail::gemm_onednn(bench.stream, p.gemm); });
  }
}

void bench_attention(Rounds& bench, DType dtype, int64_t batch, int64_t length) {
  Stream& s = bench.stream;
  const AttentionShape shape{batch, length, 12, 12, 64};
  const int64_t rows = batch * length;
  const Tensor qkv = Tensor::zeros({rows, shape.packed()}, dtype, s);
  const Tensor dy = Tensor::zeros({rows, 768}, dtype, s);
  Tensor y = Tensor::zeros({rows, 768}, dtype, s), lse = Tensor::zeros({rows * 12}, DType::kF32, s);
  Tensor dqkv = Tensor::zeros({rows, shape.packed()}, dtype, s);
  const Product p = product(s, dtype, 256, 768, 768, Transpose::kNo, Transpose::kNo);
  const Work baseline = [&] { detail::gemm_packed(s, p.gemm); };
  const double causal = 2e-9 * static_cast<double>(batch * 12 * 64) * static_cast<double>(length) *
                        static_cast<double>(length + 1);
  const std::string name = fmt::format("{} attention B {} T {}", name_of(dtype), batch, length);
  compare(
      bench, name, causal, "GFLOP/s", [&] { attention_forward(s, {shape}, qkv, y, lse); },
      p.giga_flops, "product", baseline);
  compare(
      bench, name + " backward", 2.5 * causal, "GFLOP/s",
      [&] { attention_backward(s, {shape}, qkv, y, lse, dy, dqkv); }, p.giga_flops, "product",
      baseline);
}

// Attention by the CPU's bf16 products beside that by fp32 products, on random numbers: where the
// scores are equal no sum is ever rescaled.
void bench_attention_products(Rounds& bench, int64_t batch, int64_t length) {
  if (!has_bf16_dots()) return;
  Stream& s = bench.stream;
  const AttentionShape shape{batch, length, 12, 12, 64};
  const int64_t rows = batch * length;
  const auto random = [&](int64_t columns, uint64_t seed) {
    const Rng rng(seed, "bench");
    const Tensor t = Tensor::zeros({rows, columns}, DType::kBF16, s);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<BF16>()[i] = BF16(rng.normal(to_size(i)));
    return t;
  };
  const Tensor qkv = random(shape.packed(), 1), dy = random(768, 2);
  const Tensor y = Tensor::zeros({rows, 768}, DType::kBF16, s);
  const Tensor lse = Tensor::zeros({rows * 12}, DType::kF32, s);
  const Tensor dqkv = Tensor::zeros({rows, shape.packed()}, DType::kBF16, s);
  const AttentionDropout none;
  const detail::AttentionOperands operands =
      detail::operands_of({shape}, qkv, y, lse, dy, dqkv, none);
  const double causal = 2e-9 * static_cast<double>(batch * 12 * 64) * static_cast<double>(length) *
                        static_cast<double>(length + 1);
  const std::string name = fmt::format("bf16 attention B {} T {}", batch, length);
  compare(
      bench, name + ", bf16 products", causal, "GFLOP/s",
      [&] { detail::attention_forward_bf16(s, operands); }, causal, "fp32   ",
      [&] { detail::attention_forward_fp32(s, operands); });
  compare(
      bench, name + ", bf16 products, backward", 2.5 * causal, "GFLOP/s",
      [&] { detail::attention_backward_bf16(s, operands); }, 2.5 * causal, "fp32   ",
      [&] { detail::attention_backward_fp32(s, operands); });
}

// In-place streaming over as many bytes: three arrays updated from a fourth, a cached chunk at a
// time.
Work streaming(Stream& s, const AdamArgs& a) {
  return [&s, a] {
    s.pool().parallel_for(a.master.numel(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += 1024) {
        const int64_t count = std::min<int64_t>(1024, end - i);
        const auto* from = static_cast<const std::byte*>(a.grad.raw()) +
                           i * static_cast<int64_t>(size_of(a.grad.dtype()));
        for (const Tensor* to : {&a.master, &a.exp_avg, &a.exp_avg_sq}) {
          detail::accumulate_span(from, a.grad.dtype(), to->data<float>() + i, DType::kF32, count);
        }
        if (!a.copy.defined()) continue;
        detail::cast_span(a.master.data<float>() + i, DType::kF32, a.copy.data<BF16>() + i,
                          DType::kBF16, count);
      }
    });
  };
}

void bench_streams(Rounds& bench) {
  Stream& s = bench.stream;
  const int64_t n = int64_t{32} << 20;
  AdamArgs args{.master = Tensor::zeros({n}, DType::kF32, s),
                .grad = Tensor::zeros({n}, DType::kF32, s),
                .exp_avg = Tensor::zeros({n}, DType::kF32, s),
                .exp_avg_sq = Tensor::zeros({n}, DType::kF32, s)};
  StepScalars scalars(1, s);
  scalars.upload({.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999}, 0);
  const double giga = 1e-9 * static_cast<double>(n);
  compare(
      bench, "Adam, fp32 gradient", 28 * giga, "GB/s   ", [&] { adam_update(s, args, scalars); },
      28 * giga, "stream ", streaming(s, args));
  args.grad = Tensor::zeros({n}, DType::kBF16, s);
  args.copy = Tensor::zeros({n}, DType::kBF16, s);
  compare(
      bench, "Adam, bf16 gradient and copy", 28 * giga, "GB/s   ",
      [&] { adam_update(s, args, scalars); }, 28 * giga, "stream ", streaming(s, args));
  const int64_t rows = 1024;
  const Tensor x = Tensor::zeros({rows, 768}, DType::kF32, s);
  const Tensor gamma = Tensor::zeros({768}, DType::kF32, s);
  Tensor y = Tensor::zeros({rows, 768}, DType::kF32, s),
         mean = Tensor::zeros({rows}, DType::kF32, s);
  Tensor inv = Tensor::zeros({rows}, DType::kF32, s);
  const double bytes = 2e-9 * static_cast<double>(x.bytes());
  compare(
      bench, "layer norm, 1024 rows", bytes, "GB/s   ",
      [&] { layer_norm(s, x, gamma, gamma, 1e-5F, y, mean, inv); }, bytes, "copy   ",
      [&] { cast(s, x, y); });
}

void run(int threads, int rounds) {
  Rounds bench(threads, rounds);
  fmt::print("{} threads, {} rounds; medians\n", threads, rounds);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    bench_products(bench, dtype);
    bench_attention(bench, dtype, 4, 64);
    bench_attention(bench, dtype, 2, 512);
  }
  bench_attention_products(bench, 4, 64);
  bench_attention_products(bench, 2, 512);
  bench_attention_products(bench, 1, 2048);
  bench_streams(bench);
}

}  // namespace
}  // namespace ds::kernels

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  ds::kernels::run(threads, rounds);
  return 0;
}
