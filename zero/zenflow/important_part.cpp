#include "zero/zenflow/important_part.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/device/across.h"
#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/selection/selection.h"

namespace ds {

int matrix_of(std::span<const ZenflowMatrix> matrices, int param) {
  const auto found = std::ranges::lower_bound(matrices, param, {}, &ZenflowMatrix::param);
  if (found == matrices.end() || found->param != param) return -1;
  return narrow<int>(found - matrices.begin());
}

ImportantPart::ImportantPart(const Options& options, const StateSlice& slice,
                             std::span<const ZenflowMatrix> matrices, Stream& compute,
                             const HostPlace& host)
    : options_(options),
      compute_(compute),
      host_(host.stream),
      fields_(slice.fields),
      weights_(slice.weights) {
  if (weights_.numel() > std::numeric_limits<int32_t>::max()) {
    throw Unsupported(fmt::format(
        "zero: a rank's slice of a bucket has {} elements, and ZenFlow counts at most {}; lower "
        "zero_optimization.reduce_bucket_size",
        weights_.numel(), std::numeric_limits<int32_t>::max()));
  }
  for (const ShardField& field : fields_) {
    const int index = matrix_of(matrices, field.param);
    if (index < 0) {
      most_ += field.numel;
      continue;
    }
    const ZenflowMatrix& matrix = nth(matrices, index);
    has_rest_ = has_rest_ || matrix.has_rest();
    most_ +=
        most_places({.first = field.param_begin, .numel = field.numel, .columns = matrix.columns},
                    matrix.chosen);
  }
  count_ = most_;
  if (most_ == 0) return;
  const auto zeros = [&](DType dtype, MemoryTag tag) {
    return Tensor::zeros({most_}, dtype, compute_, tag);
  };
  places_ = zeros(DType::kI32, MemoryTag::kOptimizer);
  shard_.master = zeros(DType::kF32, MemoryTag::kOptimizer);
  shard_.grad = zeros(options_.grad_dtype, MemoryTag::kGradients);
  if (weights_.dtype() != DType::kF32) {
    shard_.copy = zeros(weights_.dtype(), MemoryTag::kOptimizer);
  }
  const MemoryScope scope(host_, host.pinned != nullptr ? *host.pinned : host_.memory());
  host_places_ = Tensor::zeros({most_}, DType::kI32, host_, MemoryTag::kOptimizer);
  for (size_t i = 0; i < options_.slots.size(); ++i) {
    shard_.slots.push_back(options_.offloads_slots
                               ? Tensor::zeros({most_}, DType::kF32, host_, MemoryTag::kOptimizer)
                               : zeros(DType::kF32, MemoryTag::kOptimizer));
  }
}

void ImportantPart::choose(std::span<const ZenflowMatrix> matrices, const ChosenOf& chosen_of) {
  if (most_ == 0) return;
  std::vector<int32_t> places;
  important_.clear();
  for (const ShardField& field : fields_) {
    const auto offset = narrow<int64_t>(places.size());
    if (const int matrix = matrix_of(matrices, field.param); matrix >= 0) {
      append_places({.first = field.param_begin,
                     .numel = field.numel,
                     .columns = nth(matrices, matrix).columns},
                    chosen_of(matrix), field.offset, places);
    } else {
      for (int64_t i = 0; i < field.numel; ++i) {
        places.push_back(narrow<int32_t>(field.offset + i));
      }
    }
    const int64_t numel = narrow<int64_t>(places.size()) - offset;
    if (numel == 0) continue;
    important_.push_back({.param = field.param, .numel = numel, .offset = offset});
  }
  count_ = narrow<int64_t>(places.size());
  DS_CHECK(count_ <= most_, "zenflow: {} important elements, expected at most {}", count_, most_);
  std::memcpy(host_places_.address(), places.data(), places.size() * sizeof(int32_t));
  copy_across(compute_, Link::kToDevice, host_places_.address(), places_.address(), places_.bytes(),
              {.what = "places of columns"});
}

// The elements of what the host has, through the room between.
void ImportantPart::bring(const Tensor& all, const Tensor& to, const ImportantRoom& room) {
  Tensor staged = Tensor::borrow(room.staging.address(), {count_}, all.dtype(), host_.device());
  kernels::take(host_, all, used(host_places_), staged);
  compute_.wait(host_.mark());
  copy_across(compute_, Link::kToDevice, staged.address(), to.address(), staged.bytes(),
              {.what = "state of columns"});
  host_.wait(compute_.mark());
}

void ImportantPart::take_state(const Shard& all, const ImportantRoom& room) {
  if (count_ == 0) return;
  host_.wait(compute_.mark());  // which may still copy to what is on the host
  bring(all.master, shard_.master, room);
  for (size_t i = 0; i < shard_.slots.size(); ++i) {
    if (options_.offloads_slots) {
      Tensor slot = used(shard_.slots[i]);
      kernels::take(host_, all.slots[i], used(host_places_), slot);
    } else {
      bring(all.slots[i], shard_.slots[i], room);
    }
  }
  if (!shard_.copy.defined()) return;
  Tensor copy = used(shard_.copy);
  kernels::cast(compute_, used(shard_.master), copy);
}

void ImportantPart::write_back(const Shard& all, const Tensor& shown, const ImportantRoom& room) {
  if (count_ == 0) return;
  const Tensor staged = used(room.staging);
  const auto send = [&](const Tensor& from, Tensor to) {
    copy_across(compute_, Link::kToHost, from.address(), staged.address(), staged.bytes(),
                {.what = "state of columns"});
    host_.wait(compute_.mark());
    kernels::put(host_, staged, used(host_places_), to);
  };
  send(shard_.master, all.master);
  if (shown.defined()) {  // the masters are still there
    Tensor to = shown;
    kernels::put(host_, staged, used(host_places_), to);
  }
  for (size_t i = 0; i < shard_.slots.size(); ++i) {
    Tensor to = all.slots[i];
    if (options_.offloads_slots) {
      kernels::put(host_, used(shard_.slots[i]), used(host_places_), to);
    } else {
      send(shard_.slots[i], to);
    }
  }
}

void ImportantPart::take_host_gradient(const Tensor& all, const ImportantRoom& room) {
  if (count_ > 0) bring(all, shard_.grad, room);
}

void ImportantPart::take_gradient(const Tensor& slice, Stream& stream) {
  if (count_ == 0) return;
  Tensor grad = used(shard_.grad);
  kernels::take(stream, slice, used(places_), grad);
}

void ImportantPart::step(const Optimizer& optimizer, const StepScalars& scalars,
                         const UpdateGroup& group, const ImportantRoom& room) {
  if (count_ == 0) return;
  Shard part{.master = used(shard_.master),
             .grad = used(shard_.grad),
             .copy = shard_.copy.defined() ? used(shard_.copy) : Tensor(),
             .slots = {},
             .fields = important_};
  for (size_t i = 0; i < shard_.slots.size(); ++i) {
    const Tensor own = used(shard_.slots[i]);
    part.slots.push_back(options_.offloads_slots ? used(room.slots[i]) : own);
    if (!options_.offloads_slots) continue;
    copy_across(compute_, Link::kToDevice, own.address(), part.slots[i].address(), own.bytes(),
                {.what = "moments of columns"});
  }
  optimizer.step({&part, 1}, scalars, group, compute_);
  for (size_t i = 0; options_.offloads_slots && i < shard_.slots.size(); ++i) {
    const Tensor own = used(shard_.slots[i]);
    copy_across(compute_, Link::kToHost, part.slots[i].address(), own.address(), own.bytes(),
                {.what = "moments of columns"});
  }
}

void ImportantPart::show() {
  if (count_ == 0) return;
  Tensor weights = weights_;
  const Tensor& from = shard_.copy.defined() ? shard_.copy : shard_.master;
  kernels::put(compute_, used(from), used(places_), weights);
}

}  // namespace ds
