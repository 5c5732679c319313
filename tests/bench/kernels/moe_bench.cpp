// Speed of the kernels of mixture of experts: products by expert beside one product of as many
// FLOPs, rows to experts and back beside a copy of as many bytes. Usage: moe_bench [threads]
// [rounds].
#include <cstdlib>
#include <cstring>

#include "core/values/rng.h"
#include "kernels/matmul/matmul.h"
#include "kernels/moe/expert_order.h"
#include "kernels/moe/expert_rows.h"
#include "kernels/moe/grouped_matmul.h"
#include "kernels/moe/route.h"
#include "tests/bench/kernels/rounds.h"

namespace ds::kernels {
namespace {

using bench::compare;
using bench::Rounds;

constexpr int64_t kTokens = 1024, kChoices = 2, kWidth = 512, kInner = 1024;
constexpr int64_t kRows = kTokens * kChoices;

// Choices of random logits, sorted.
struct Routing {
  ExpertOrder order;
  Tensor weights;
};
Routing routing_of(Stream& s, int64_t experts) {
  const auto integers = [&](int64_t count) { return Tensor::zeros({count}, DType::kI32, s); };
  const Tensor logits = Tensor::zeros({kTokens, experts}, DType::kF32, s);
  const Rng rng(1, "bench");
  for (int64_t i = 0; i < logits.numel(); ++i) logits.data<float>()[i] = rng.normal(to_size(i));
  const Tensor chosen = integers(kRows);
  Routing out{.order = {integers(experts), integers(experts + 1), integers(kRows), integers(kRows)},
              .weights = Tensor::zeros({kRows}, DType::kF32, s)};
  route(s, {.rule = {.experts = experts, .choices = kChoices, .weight_sum = WeightSum::kOne},
            .logits = logits,
            .experts = chosen,
            .weights = out.weights});
  sort_by_expert(s, chosen, kChoices, ChoiceOrder::kByToken, out.order);
  return out;
}

Tensor random(Stream& s, const Shape& shape, DType dtype) {
  const Rng rng(2, "bench");
  const Tensor out = Tensor::zeros(shape, dtype, s);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const float value = rng.normal(to_size(i) % 65536);
    if (dtype == DType::kF32) {
      out.data<float>()[i] = value;
    } else {
      out.data<BF16>()[i] = BF16(value);
    }
  }
  return out;
}

void bench_products(Rounds& bench, DType dtype, int64_t experts) {
  Stream& s = bench.stream;
  const Routing routing = routing_of(s, experts);
  const Tensor rows = random(s, {kRows, kWidth}, dtype), dy = random(s, {kRows, kInner}, dtype);
  const Tensor weights = random(s, {experts, kInner, kWidth}, dtype);
  const Tensor one = weights.narrow(0, kInner * kWidth);
  const Tensor y = Tensor::zeros({kRows, kInner}, dtype, s);
  const Tensor dx = Tensor::zeros({kRows, kWidth}, dtype, s);
  const Tensor dw = Tensor::zeros({experts, kInner, kWidth}, DType::kF32, s);
  const double flops = 2e-9 * static_cast<double>(kRows * kWidth) * static_cast<double>(kInner);
  const auto line = [&](const char* what, const bench::Work& grouped, const MatmulArgs& dense) {
    compare(bench, fmt::format("{} {} experts, {}", name_of(dtype), experts, what), flops,
            "GFLOP/s", grouped, flops, "one product", [&] { matmul(s, dense); });
  };
  line("forward",
       [&] {
         grouped_matmul(s, {.rows = rows,
                            .weights = weights,
                            .offsets = routing.order.offsets,
                            .depth = kWidth,
                            .transpose_weights = Transpose::kYes,
                            .out = y});
       },
       {.a = matrix(rows, kRows, kWidth),
        .b = matrix(one, kInner, kWidth),
        .c = matrix(y, kRows, kInner),
        .transpose_b = Transpose::kYes});
  line("by input",
       [&] {
         grouped_matmul(s, {.rows = dy,
                            .weights = weights,
                            .offsets = routing.order.offsets,
                            .depth = kInner,
                            .out = dx});
       },
       {.a = matrix(dy, kRows, kInner),
        .b = matrix(one, kInner, kWidth),
        .c = matrix(dx, kRows, kWidth)});
  line("by weight",
       [&] {
         grouped_matmul_weights(s, {.a = dy,
                                    .b = rows,
                                    .offsets = routing.order.offsets,
                                    .out = dw,
                                    .a_columns = kInner,
                                    .b_columns = kWidth});
       },
       {.a = matrix(dy, kRows, kInner),
        .b = matrix(rows, kRows, kWidth),
        .c = matrix(dw.narrow(0, kInner * kWidth), kInner, kWidth),
        .transpose_a = Transpose::kYes});
}

void bench_rows(Rounds& bench, DType dtype) {
  Stream& s = bench.stream;
  const Routing routing = routing_of(s, 8);
  const Tensor x = random(s, {kTokens, kWidth}, dtype);
  const Tensor rows = random(s, {kRows, kWidth}, dtype), copied = random(s, {kRows, kWidth}, dtype);
  const RowsOfTokens shape{.choices = kChoices, .columns = kWidth};
  const double bytes = 2e-9 * static_cast<double>(rows.bytes());
  const auto copy = [&] {
    s.pool().parallel_for(kRows, 4, [&](int64_t begin, int64_t end) {
      const size_t row = rows.bytes() / to_size(kRows);
      std::memcpy(static_cast<std::byte*>(copied.raw()) + to_size(begin) * row,
                  static_cast<std::byte*>(rows.raw()) + to_size(begin) * row,
                  to_size(end - begin) * row);
    });
  };
  compare(
      bench, fmt::format("{} rows to experts", name_of(dtype)), bytes, "GB/s   ",
      [&] {
        gather_expert_rows(s, {.shape = shape, .x = x, .order = routing.order.order, .rows = rows});
      },
      bytes, "copy   ", copy);
  // It reads as many rows, and writes half as many.
  compare(
      bench, fmt::format("{} rows back, weighed", name_of(dtype)), bytes * 3 / 4, "GB/s   ",
      [&] {
        return_expert_rows(s, {.shape = shape,
                               .rows = rows,
                               .place = routing.order.place,
                               .weights = routing.weights,
                               .y = x});
      },
      bytes, "copy   ", copy);
}

void run(int threads, int rounds) {
  Rounds bench(threads, rounds);
  fmt::print("{} threads, {} rounds; medians. {} tokens, k {}, {} x {}\n", threads, rounds, kTokens,
             kChoices, kWidth, kInner);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t experts : {8, 64}) bench_products(bench, dtype, experts);
    bench_rows(bench, dtype);
  }
}

}  // namespace
}  // namespace ds::kernels

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  ds::kernels::run(threads, rounds);
  return 0;
}
