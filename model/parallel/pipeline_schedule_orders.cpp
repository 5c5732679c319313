// Orders of compute work.
#include "model/parallel/pipeline_schedule_orders.h"

#include <algorithm>
#include <array>

#include "core/values/index.h"

namespace ds::detail {

namespace {

constexpr auto kF = PipelineOp::kForwardPass;
constexpr auto kBoth = PipelineOp::kBackwardPass;
constexpr auto kB = PipelineOp::kBackwardInput;
constexpr auto kW = PipelineOp::kBackwardWeight;

// Hands out micro-batches in order per (op, chunk), and forgets those beyond the batch: a schedule
// of a short batch is that of a longer one with the surplus left out.
class Counter {
 public:
  Counter(int planned, int kept) : planned_(planned), kept_(kept) {}

  void add(PipelineOp op, int chunk) {
    int& next = nth(nth(next_, op), chunk);
    if (next < kept_) order_.push_back({op, chunk, next});
    ++next;
  }
  int count(PipelineOp op, int chunk) const { return nth(nth(next_, op), chunk); }
  bool has_more(PipelineOp op, int chunk) const { return count(op, chunk) < planned_; }
  std::vector<PipelineWork> take() { return std::move(order_); }

 private:
  int planned_;
  int kept_;
  std::array<std::array<int, 2>, 16> next_{};
  std::vector<PipelineWork> order_;
};

}  // namespace

std::vector<PipelineWork> gpipe_order(int micro_batches) {
  std::vector<PipelineWork> order;
  for (int k = 0; k < micro_batches; ++k) order.push_back({kF, 0, k});
  // Last in, first out: the last micro-batch's activations are freed first.
  for (int k = micro_batches; k-- > 0;) order.push_back({kBoth, 0, k});
  return order;
}

std::vector<PipelineWork> interleaved_order(const PipelineShape& shape, int stage) {
  const int p = shape.stages, v = shape.chunks;
  const int total = shape.micro_batches * v;
  // Micro-batches go through the chunks in rounds of p; backwards visit the chunks from the last.
  const auto micro = [&](int k) { return k / (p * v) * p + k % p; };
  const auto forward = [&](int k) { return PipelineWork{kF, k / p % v, micro(k)}; };
  const auto backward = [&](int k) { return PipelineWork{kBoth, v - 1 - k / p % v, micro(k)}; };
  const int warmup = v == 1 ? p - stage - 1 : (p - stage - 1) * 2 + (v - 1) * p;
  const int ahead = std::min(warmup, total);
  std::vector<PipelineWork> order;
  for (int k = 0; k < ahead; ++k) order.push_back(forward(k));
  for (int k = ahead; k < total; ++k) {
    order.push_back(forward(k));
    order.push_back(backward(k - ahead));
  }
  for (int k = total - ahead; k < total; ++k) order.push_back(backward(k));
  return order;
}

std::vector<PipelineWork> zero_bubble_h1_order(const PipelineShape& shape, int stage) {
  // Stage s may hold as many micro-batches as the first stage does in 1F1B, so its W may lag s
  // behind its B: the W left over fill what would be idle at the end.
  Counter work(shape.micro_batches, shape.micro_batches);
  for (int i = 0; i < shape.stages - stage && work.has_more(kF, 0); ++i) work.add(kF, 0);
  while (work.has_more(kB, 0)) {
    work.add(kB, 0);
    if (work.count(kB, 0) > stage) work.add(kW, 0);
    if (work.has_more(kF, 0)) work.add(kF, 0);
  }
  while (work.has_more(kW, 0)) work.add(kW, 0);
  return work.take();
}

std::vector<PipelineWork> zero_bubble_v_order(const PipelineShape& shape, int stage) {
  const int p = shape.stages;
  Counter work(std::max(shape.micro_batches, 2 * p - 1), shape.micro_batches);
  const auto backward_pair = [&](int chunk) {
    work.add(kB, chunk);
    work.add(kW, chunk);
  };
  // Warm-up: fill the way down the V, then the way back, then the first full turns of chunk 1.
  for (int i = 0; i < 2 * (p - stage) - 1; ++i) work.add(kF, 0);
  for (int i = 0; i < stage; ++i) {
    work.add(kF, 1);
    work.add(kF, 0);
  }
  for (int i = 0; i < p - stage; ++i) {
    work.add(kF, 1);
    backward_pair(1);
  }
  while (work.count(kF, 1) < work.count(kF, 0) || work.has_more(kF, 0)) {
    if (work.has_more(kF, 0)) work.add(kF, 0);
    backward_pair(0);
    work.add(kF, 1);
    backward_pair(1);
  }
  // Cool-down: B first, because other ranks wait for it; the W that were put off fill the end.
  for (int i = 0; i < stage; ++i) {
    work.add(kB, 0);
    work.add(kB, 1);
  }
  for (int i = 0; i < p - stage; ++i) backward_pair(0);
  for (const int chunk : {1, 0}) {
    while (work.count(kW, chunk) < work.count(kB, chunk)) work.add(kW, chunk);
  }
  return work.take();
}

}  // namespace ds::detail
