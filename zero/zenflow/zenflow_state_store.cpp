#include "zero/zenflow/zenflow_state_store.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "core/device/across.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/selection/selection.h"
#include "zero/state/state_slots.h"
#include "zero/state/state_work.h"

namespace ds {
namespace {

constexpr const char* kSumSlot = "zenflow_sum";
constexpr const char* kShownSlot = "zenflow_shown";

std::vector<StatePart> whole_slices(std::span<const StateSlice> slices) {
  std::vector<int64_t> numel;
  for (const StateSlice& slice : slices) {
    if (!slice.weights.defined()) {
      throw Unsupported(
          "zero: ZenFlow updates important weights on the device, and offload_param keeps them "
          "elsewhere; use one of them");
    }
    numel.push_back(slice.numel());
  }
  return state_parts(numel, {}, INT64_MAX);
}

std::vector<std::vector<ShardField>> fields_of(std::span<const StateSlice> slices) {
  std::vector<std::vector<ShardField>> fields;
  for (const StateSlice& slice : slices) fields.push_back(slice.fields);
  return fields;
}

size_t own_slots(const ZenflowOptions& options) { return options.overlaps ? 2 : 1; }

}  // namespace

std::vector<SlotSpec> ZenflowStateStore::slots(const ZenflowOptions& options) {
  std::vector<SlotSpec> slots{{.name = kSumSlot}};
  if (options.overlaps) slots.push_back({.name = kShownSlot});
  return slots;
}

ZenflowStateStore::ZenflowStateStore(const StateOptions& state, const ZenflowOptions& options,
                                     std::span<const StateSlice> slices,
                                     std::vector<ZenflowMatrix> matrices, const Place& place)
    : options_(options),
      compute_(place.compute),
      host_(place.host.stream),
      matrices_(std::move(matrices)),
      parts_(whole_slices(slices)),
      sums_(matrices_, fields_of(slices), place.ranks, compute_, host_),
      out_(parts_, slices, compute_, place.host.pinned),
      mean_(1, host_),
      columns_(make_column_choice(options_, matrices_, compute_)) {
  const HostPlace& host = place.host;
  DS_CHECK(state.master_dtype == DType::kF32, "zenflow: masters in {}, expected fp32",
           name_of(state.master_dtype));
  DS_CHECK(state.slots.size() >= own_slots(options_), "zenflow: {} slots", state.slots.size());
  DS_CHECK(!options_.overlaps || host.updater != nullptr, "zenflow: nobody updates the rest late");
  for (const StatePart& part : parts_) add_slice(state, nth(slices, part.bucket), host);
  make_room(host);
  if (options_.overlaps) late_.emplace(*host.updater);
}

void ZenflowStateStore::add_slice(const StateOptions& state, const StateSlice& slice,
                                  const HostPlace& host) {
  const auto specs = std::span(state.slots).first(state.slots.size() - own_slots(options_));
  Slice& made = slices_.emplace_back();
  made.important = std::make_unique<ImportantPart>(
      ImportantPart::Options{.slots = {specs.begin(), specs.end()},
                             .grad_dtype = state.grad_dtype,
                             .offloads_slots = options_.offloads_moments},
      slice, matrices_, compute_, host);
  const MemoryScope scope(host_, host.pinned != nullptr ? *host.pinned : host_.memory());
  const auto numbers = [&](MemoryTag tag, DType dtype = DType::kF32) {
    return Tensor::zeros({slice.numel()}, dtype, host_, tag);
  };
  made.all.master = numbers(MemoryTag::kOptimizer);
  made.all.grad = numbers(MemoryTag::kGradients, state.grad_dtype);
  made.all.fields = slice.fields;
  for (const SlotSpec& spec : specs) {
    DS_CHECK(spec.dtype == DType::kF32, "zenflow: slot {} in {}, expected fp32", spec.name,
             name_of(spec.dtype));
    made.all.slots.push_back(numbers(MemoryTag::kOptimizer));
    made.all.scales.emplace_back();
  }
  begin_slots(specs, made.all, host_);
  made.sum = numbers(MemoryTag::kGradients);
  if (!options_.overlaps) return;
  made.taken = numbers(MemoryTag::kGradients);
  made.shown = numbers(MemoryTag::kOptimizer);
}

void ZenflowStateStore::make_room(const HostPlace& host) {
  int64_t most = 0;
  for (const Slice& slice : slices_) most = std::max(most, slice.important->most());
  if (most == 0) return;
  const MemoryScope scope(host_, host.pinned != nullptr ? *host.pinned : host_.memory());
  room_.staging = Tensor::zeros({most}, DType::kF32, host_, MemoryTag::kOptimizer);
  if (!options_.offloads_moments) return;
  for (size_t i = 0; i < slices_.front().all.slots.size(); ++i) {
    room_.slots.push_back(Tensor::zeros({most}, DType::kF32, compute_, MemoryTag::kOptimizer));
  }
}

void ZenflowStateStore::store_gradient(int bucket, const Tensor& slice, Stream& stream) {
  stream.wait(moved_);
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].bucket != bucket) continue;
    copy_across(stream, Link::kToHost, slice.address(), slices_[i].all.grad.address(),
                slice.bytes(), {.what = "gradients of bucket", .number = bucket});
  }
  moved_ = stream.mark();
}

void ZenflowStateStore::load_gradient(int bucket, const Tensor& slice, Stream& stream) {
  stream.wait(moved_);
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].bucket != bucket) continue;
    copy_across(stream, Link::kToDevice, slices_[i].all.grad.address(), slice.address(),
                slice.bytes(), {.what = "gradients of bucket", .number = bucket});
  }
  moved_ = stream.mark();
}

void ZenflowStateStore::store_final_gradient(int bucket, const Tensor& slice, Stream& stream) {
  store_gradient(bucket, slice, stream);
  if (columns_->warms_up()) return;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].bucket != bucket) continue;
    ImportantPart& important = *slices_[i].important;
    // What is important is not known before all gradients are.
    if (!columns_->selects()) important.take_gradient(slice, stream);
    if (columns_->needs_squares()) sums_.add(important.fields(), slice, stream);
  }
}

void ZenflowStateStore::update(const StateUpdate& update) {
  columns_->begin_update(update.group.number.update);
  host_.wait(moved_);
  if (columns_->warms_up()) {
    update_all(update);
  } else {
    const std::vector<double> squares =
        columns_->needs_squares() ? sums_.of_all_ranks() : std::vector<double>();
    if (columns_->selects()) select(update, squares);
    for (const Slice& slice : slices_) {
      slice.important->step(update.optimizer, update.scalars, update.group, room_);
    }
    DS_FAILPOINT("zenflow.important_updated");
    add_rest(update, squares);
    if (columns_->ends_interval()) end_interval(update);
    for (const Slice& slice : slices_) slice.important->show();
  }
  columns_->end_update();
  DS_FAILPOINT("zenflow.updated");
}

// As without ZenFlow.
void ZenflowStateStore::update_all(const StateUpdate& update) {
  settle_late();
  if (columns_->has_columns())
    write_back_columns();  // a warm-up is longer than it was in the run before
  columns_->forget();
  for (size_t i = 0; i < slices_.size(); ++i) {
    update_part(i, "part", slices_[i].all.grad, *update.host, update);
  }
}

// All weights of the part are on the device then.
void ZenflowStateStore::update_part(size_t i, std::string_view what, const Tensor& grad,
                                    const StepScalars& by, const StateUpdate& update) {
  Slice& slice = slices_[i];
  Shard part = slice.all;
  part.grad = grad;
  part.copy = out_.place(parts_[i], host_);
  {
    const BackgroundSpan span(host_, BackgroundKind::kUpdate,
                              {.what = what, .number = narrow<int>(i)}, bytes_of(part));
    update.optimizer.step({&part, 1}, by, update.group, host_);
  }
  if (is_late()) kernels::cast(host_, part.master, slice.shown);
  out_.send(parts_[i], host_);
}

// What waits is settled with the columns that were chosen when it came; then all weights are shown
// as they are, because those of columns that are no longer important stay so for a while.
void ZenflowStateStore::select(const StateUpdate& update, std::span<const double> squares) {
  settle_late();
  const bool waits = columns_->waiting() > 0;
  if (waits) {
    set_mean(update);
    update_rest(update);
  }
  if (columns_->has_columns()) write_back_columns();
  if (is_late() || waits) show_masters();
  columns_->choose(sums_, squares);
  choose_places();
  DS_FAILPOINT("zenflow.columns_chosen");
  take_back_columns();
  for (const Slice& slice : slices_) slice.important->take_host_gradient(slice.all.grad, room_);
}

void ZenflowStateStore::choose_places() {
  for (const Slice& slice : slices_) columns_->place(*slice.important);
}

void ZenflowStateStore::add_rest(const StateUpdate& update, std::span<const double> squares) {
  const float scale = update.host->host_outcome().grad_scale;
  for (Slice& slice : slices_) {
    if (slice.has_rest()) kernels::add_scaled(host_, scale, slice.all.grad, slice.sum);
  }
  columns_->add(scale, sums_, squares);
  DS_FAILPOINT("zenflow.rest_added");
}

void ZenflowStateStore::end_interval(const StateUpdate& update) {
  if (is_late()) {  // what was updated last is seen from now on
    settle_late();
    show_masters();
  }
  set_mean(update);
  is_late() ? begin_late(update) : update_rest(update);
}

// With the rate and the corrections of the update that ends the interval.
void ZenflowStateStore::set_mean(const StateUpdate& update) {
  spdlog::debug("zenflow: the rest's update after update {} is of {} gradients", columns_->next(),
                columns_->waiting());
  mean_.upload(update.host->host_inputs(), 0);
  mean_.write({.grad_scale = 1.0F / static_cast<float>(columns_->waiting())});
  columns_->end_interval();
}

void ZenflowStateStore::update_rest(const StateUpdate& update) {
  for (size_t i = 0; i < slices_.size(); ++i) {
    Slice& slice = slices_[i];
    if (!slice.has_rest()) continue;
    update_part(i, "rest of part", slice.sum, mean_, update);
    kernels::fill(host_, slice.sum, 0);
    DS_FAILPOINT("zenflow.rest_updated");
  }
}

void ZenflowStateStore::begin_late(const StateUpdate& update) {
  for (Slice& slice : slices_) {
    if (!slice.has_rest()) continue;
    std::swap(slice.sum, slice.taken);
    kernels::fill(host_, slice.sum, 0);
  }
  DS_FAILPOINT("zenflow.rest_taken");
  late_->begin(
      [this, &optimizer = update.optimizer, group = update.group](Stream& stream) {
        for (const Slice& slice : slices_) {
          if (!slice.has_rest()) continue;
          Shard part = slice.all;
          part.grad = slice.taken;
          const auto number = narrow<int>(&slice - slices_.data());
          const BackgroundSpan span(stream, BackgroundKind::kUpdate,
                                    {.what = "rest of part", .number = number}, bytes_of(part));
          optimizer.step({&part, 1}, mean_, group, stream);
          DS_FAILPOINT("zenflow.rest_updated_late");
        }
      },
      host_.mark());
}

void ZenflowStateStore::settle_late() {
  if (!is_late()) return;
  late_->end();
  host_.wait(late_->ended_at());
}

void ZenflowStateStore::show_masters() {
  for (size_t i = 0; i < slices_.size(); ++i) {
    Slice& slice = slices_[i];
    if (!slice.has_rest()) continue;
    if (is_late()) kernels::cast(host_, slice.all.master, slice.shown);
    Tensor copy = out_.place(parts_[i], host_);
    kernels::cast(host_, slice.all.master, copy);
    out_.send(parts_[i], host_);
  }
  DS_FAILPOINT("zenflow.masters_shown");
}

void ZenflowStateStore::write_back_columns() {
  for (Slice& slice : slices_) {
    slice.important->write_back(slice.all, slice.shown, room_);
  }
}

void ZenflowStateStore::take_back_columns() {
  for (const Slice& slice : slices_) slice.important->take_state(slice.all, room_);
}

void ZenflowStateStore::visit(PartAccess access, const Work& work) {
  DS_CHECK(!takes_gradients(access), "zenflow: gradients are for its own update");
  settle_late();
  if (columns_->has_columns()) write_back_columns();
  for (size_t i = 0; i < slices_.size(); ++i) {
    Slice& slice = slices_[i];
    Shard shard = slice.all;
    shard.slots.push_back(slice.sum);
    if (is_late()) shard.slots.push_back(slice.shown);
    shard.scales.resize(shard.slots.size());
    if (makes_weights(access)) shard.copy = out_.place(parts_[i], host_);
    OpenPart open{.part = parts_[i], .shard = shard, .stream = host_};
    work(open);
    if (!makes_weights(access)) continue;
    if (is_late() && access == PartAccess::kFill) {
      kernels::cast(host_, shard.master, slice.shown);
    }
    if (is_late()) kernels::cast(host_, slice.shown, shard.copy);
    out_.send(parts_[i], host_);
  }
  if (makes_weights(access) && columns_->has_columns()) take_back_columns();
}

void ZenflowStateStore::take_back(std::span<const Tensor> auxiliary) {
  if (!columns_->read(auxiliary, compute_)) return;
  choose_places();
  take_back_columns();
  for (const Slice& slice : slices_) slice.important->show();
}

}  // namespace ds
