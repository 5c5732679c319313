#include "train/eigenvalue/block_hessian.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace ds {
namespace {

constexpr double kRounding = 0x1p-24;  // of fp32, relative

double length(std::span<const float> v) {
  double squares = 0;
  for (const float x : v) squares += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(squares);
}

double largest(std::span<const float> v) {
  float most = 0;
  for (const float x : v) most = std::max(most, std::abs(x));
  return most;
}

}  // namespace

HeldBatch::HeldBatch(Engine& engine, BatchSource& source, int64_t step, int micro_step)
    : source_(source), step_(step), micro_step_(micro_step) {
  held_ = host_batch(engine.batches().of_step(step));
  source.fill(step, micro_step, held_);
}

void HeldBatch::fill(int64_t /*step*/, int /*micro_step*/, const MicroBatch& batch) {
  batch.copy_from(held_);
}

BlockHessian::BlockHessian(Engine& engine, HeldBatch& batch, HostCopy& copy,
                           std::span<const ParamId> block)
    : engine_(engine),
      batch_(batch),
      copy_(copy),
      block_(block.begin(), block.end()),
      store_(engine.store(), block, engine.stream()) {
  read_weights();
  if (engine.token_group().size() == 1) return;
  const MemoryScope scope(engine.stream(), engine.store().gathers().slots().memory());
  sum_ = Tensor::empty({numel()}, DType::kF32, engine.stream(), MemoryTag::kScratch);
}

void BlockHessian::read_weights() {
  for (const ParamId id : block_) {
    const Lease lease = engine_.store().acquire(id);
    numel_ += lease.weight().numel();
    copy_.down(lease.weight(), [&](int64_t /*first*/, const Tensor& part) {
      weights_.reserve(to_size(numel_));
      weights_.insert(weights_.end(), part.data<float>(), part.data<float>() + part.numel());
    });
  }
}

std::vector<float> BlockHessian::times(const std::vector<float>& v) {
  DS_CHECK(v.size() == weights_.size(), "block hessian: {} elements, the block has {}", v.size(),
           weights_.size());
  const double h = step_along(v);
  return h == 0 ? std::vector<float>(v.size()) : difference(v, h);  // on all ranks
}

void BlockHessian::rehearse() { difference({}, 1); }

std::vector<float> BlockHessian::difference(const std::vector<float>& v, double h) {
  std::vector<float> product(v.size());
  const std::vector<float> after = gradient(v, h);
  const std::vector<float> before = gradient(v, -h);
  std::ranges::transform(after, before, product.begin(), std::minus<>());
  add_ranks(product);
  for (float& x : product) x = static_cast<float>(x / (2 * h));
  return product;
}

double BlockHessian::step_along(const std::vector<float>& v) const {
  const double longest = largest(v);
  if (longest == 0) return 0;
  const double ratio = std::min(length(weights_) / length(v), largest(weights_) / longest);
  return std::cbrt(kRounding) * (ratio > 0 ? ratio : 1 / longest);  // where all weights are zero
}

void BlockHessian::move_weights(const std::vector<float>& v, double by) {
  size_t begin = 0;
  for (const ParamId id : block_) {
    const Tensor& weight = store_.weight(id);
    copy_.up(weight, [&](int64_t first, Tensor& part) {
      auto* const to = part.data<float>();
      for (size_t i = 0; i < to_size(part.numel()); ++i) {
        const size_t at = begin + to_size(first) + i;
        to[i] = static_cast<float>(weights_[at] + by * v[at]);
      }
    });
    begin += to_size(weight.numel());
  }
}

std::vector<float> BlockHessian::gradient(const std::vector<float>& v, double by) {
  move_weights(v, by);
  engine_.probe_micro_step(batch_, batch_.step(), batch_.micro_step(), store_);
  std::vector<float> out(weights_.size());
  size_t begin = 0;
  for (const ParamId id : block_) {
    const Tensor& gradient = store_.gradient(id);
    copy_.down(gradient, [&](int64_t first, const Tensor& part) {
      std::copy_n(part.data<float>(), part.numel(), &out[begin + to_size(first)]);
    });
    begin += to_size(gradient.numel());
  }
  return out;
}

void BlockHessian::add_ranks(std::vector<float>& sum) {
  if (!sum_.defined()) return;
  copy_.up(sum_, [&](int64_t first, Tensor& part) {
    std::copy_n(&sum[to_size(first)], part.numel(), part.data<float>());
  });
  const Span span(engine_.stream(), "eigenvalue");
  engine_.token_group().all_reduce(sum_, ReduceOp::kSum, engine_.stream());
  copy_.down(sum_, [&](int64_t first, const Tensor& part) {
    std::copy_n(part.data<float>(), part.numel(), &sum[to_size(first)]);
  });
}

}  // namespace ds
