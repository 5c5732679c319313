#include "zero/state/optimizer_state_store.h"

#include <utility>

#include "core/device/across.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "zero/state/state_slots.h"
#include "zero/state/state_work.h"
#include "zero/state/weight_upload.h"

namespace ds {
namespace {

std::vector<int64_t> numel_of(std::span<const StateSlice> slices) {
  std::vector<int64_t> numel;
  for (const StateSlice& slice : slices) numel.push_back(slice.numel());
  return numel;
}

// What moves the gradients of a part: on the device, or over the link to the host.
auto within(Stream& stream) {
  return [&stream](const void* from, void* to, size_t bytes) { stream.copy(from, to, bytes); };
}
auto over(Stream& stream, Link link, int bucket) {
  return [&stream, link, bucket](const void* from, void* to, size_t bytes) {
    copy_across(stream, link, from, to, bytes, {.what = "gradients of bucket", .number = bucket});
  };
}

// Parts whose tensors stay where they are.
class ResidentParts {
 public:
  ResidentParts(const StateOptions& options, std::span<const StateSlice> slices)
      : parts_(state_parts(numel_of(slices), options.share, options.part_numel)) {}

  const std::vector<StatePart>& parts() const { return parts_; }
  std::vector<Shard>& shards() { return shards_; }

  void add_slots(const StateOptions& options, int64_t numel, Stream& stream, Shard& shard) {
    for (const SlotSpec& slot : options.slots) {
      const int64_t scales = scales_of(slot, numel);
      shard.slots.push_back(Tensor::zeros({numel}, slot.dtype, stream, MemoryTag::kOptimizer));
      shard.scales.push_back(
          scales > 0 ? Tensor::zeros({scales}, DType::kU8, stream, MemoryTag::kOptimizer)
                     : Tensor());
    }
    begin_slots(options.slots, shard, stream);
  }

  template <class Move>
  void each_of(int bucket, const Move& move) {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].bucket == bucket) move(parts_[i], shards_[i]);
    }
  }
  // Gradients of the bucket, from its slice or to it, in the order of what was given to other
  // streams. copy(from, to, bytes) moves those of a part.
  template <class Copy>
  void store(int bucket, const Tensor& slice, Stream& stream, const Copy& copy) {
    stream.wait(moved_);
    each_of(bucket, [&](const StatePart& part, Shard& shard) {
      const Tensor from = slice.narrow(part.begin, part.numel);
      copy(from.address(), shard.grad.address(), from.bytes());
    });
    moved_ = stream.mark();
  }
  template <class Copy>
  void load(int bucket, const Tensor& slice, Stream& stream, const Copy& copy) {
    stream.wait(moved_);
    each_of(bucket, [&](const StatePart& part, Shard& shard) {
      const Tensor to = slice.narrow(part.begin, part.numel);
      copy(shard.grad.address(), to.address(), to.bytes());
    });
    moved_ = stream.mark();
  }
  const Event& moved() const { return moved_; }

 private:
  const std::vector<StatePart> parts_;
  std::vector<Shard> shards_;
  Event moved_{};  // the last gradient
};

class DeviceStateStore final : public OptimizerStateStore {
 public:
  DeviceStateStore(const StateOptions& options, std::span<const StateSlice> slices, Stream& compute)
      : compute_(compute), all_(options, slices) {
    for (const StatePart& part : all_.parts()) {
      const StateSlice& slice = nth(slices, part.bucket);
      const Tensor weights =
          slice.weights.defined() ? slice.weights.narrow(part.begin, part.numel) : Tensor();
      Shard shard;
      shard.fields = fields_within(slice.fields, part);
      shard.own = slice.own;
      if (weights.defined() && weights.dtype() == options.master_dtype) {
        shard.master = weights;
      } else {
        shard.master =
            Tensor::zeros({part.numel}, options.master_dtype, compute, MemoryTag::kOptimizer);
        shard.copy = weights;
      }
      shard.grad = slice.grad.defined() ? slice.grad.narrow(part.begin, part.numel)
                                        : Tensor::zeros({part.numel}, options.grad_dtype, compute,
                                                        MemoryTag::kGradients);
      all_.add_slots(options, part.numel, compute, shard);
      all_.shards().push_back(std::move(shard));
    }
  }

  std::span<const StatePart> parts() const override { return all_.parts(); }
  std::span<Shard> resident() override { return all_.shards(); }
  void each_on_device(const Look& look) override {
    for (size_t i = 0; i < all_.parts().size(); ++i) look(all_.parts()[i], all_.shards()[i]);
  }

  // All at once: rules may need more than one part.
  void update(const StateUpdate& update) override {
    compute_.wait(all_.moved());
    update.optimizer.step(all_.shards(), update.scalars, update.group, compute_);
  }

  void visit(PartAccess access, const Work& work) override {
    if (takes_gradients(access)) compute_.wait(all_.moved());
    for (size_t i = 0; i < all_.parts().size(); ++i) {
      OpenPart open{.part = all_.parts()[i], .shard = all_.shards()[i], .stream = compute_};
      work(open);
    }
  }

  void store_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    all_.store(bucket, slice, stream, within(stream));
  }
  void load_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    all_.load(bucket, slice, stream, within(stream));
  }

 private:
  Stream& compute_;
  ResidentParts all_;
};

class HostStateStore final : public OptimizerStateStore {
 public:
  HostStateStore(const StateOptions& options, std::span<const StateSlice> slices, Stream& compute,
                 const HostPlace& host)
      : host_(host.stream),
        all_(options, slices),
        out_(all_.parts(), slices, compute, host.pinned) {
    const MemoryScope scope(host_, host.pinned != nullptr ? *host.pinned : host_.memory());
    for (const StatePart& part : all_.parts()) {
      Shard shard;
      shard.master =
          Tensor::zeros({part.numel}, options.master_dtype, host_, MemoryTag::kOptimizer);
      shard.grad = Tensor::zeros({part.numel}, options.grad_dtype, host_, MemoryTag::kGradients);
      shard.fields = fields_within(nth(slices, part.bucket).fields, part);
      all_.add_slots(options, part.numel, host_, shard);
      all_.shards().push_back(std::move(shard));
    }
    if (host.updater == nullptr) return;
    kept_.emplace(all_.shards(), *host.updater);
    ahead_.emplace(*kept_, *host.updater);
  }

  std::span<const StatePart> parts() const override { return all_.parts(); }

  void visit(PartAccess access, const Work& work) override {
    if (takes_gradients(access)) host_.wait(all_.moved());
    if (ahead_) {
      ahead_->end(SpeculativeUpdate::Verdict::kUndo);  // of a step that was not ended
      host_.wait(ahead_->ended_at());
    }
    for (size_t i = 0; i < all_.parts().size(); ++i) {
      const StatePart& part = all_.parts()[i];
      Shard shard = all_.shards()[i];
      if (makes_weights(access)) shard.copy = out_.place(part, host_);
      OpenPart open{.part = part, .shard = shard, .stream = host_};
      open.is_ahead = access == PartAccess::kUpdate && ahead_ && ahead_->take_done(narrow<int>(i));
      work_in_background(access, open, narrow<int>(i), work);
      if (makes_weights(access)) out_.send(part, host_);
    }
  }

  void store_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    all_.store(bucket, slice, stream, over(stream, Link::kToHost, bucket));
  }
  void load_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    all_.load(bucket, slice, stream, over(stream, Link::kToDevice, bucket));
  }

  void begin_ahead(const Work& work) override {
    if (!ahead_) return;
    ahead_->begin([this, work](int index, Stream& stream) {
      Shard shard = nth(all_.shards(), index);
      OpenPart open{.part = nth(all_.parts(), index), .shard = shard, .stream = stream};
      work(open);
    });
  }
  void store_final_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    store_gradient(bucket, slice, stream);
    if (!ahead_ || !ahead_->has_begun()) return;
    for (size_t i = 0; i < all_.parts().size(); ++i) {
      if (all_.parts()[i].bucket == bucket) ahead_->add(narrow<int>(i), all_.moved());
    }
  }
  void hand_over_ahead() override {
    if (ahead_) ahead_->hand_over();
  }
  void end_ahead(SpeculativeUpdate::Verdict verdict) override {
    if (ahead_) ahead_->end(verdict);
  }

 private:
  Stream& host_;
  ResidentParts all_;
  WeightUpload out_;
  std::optional<KeptParts> kept_;
  std::optional<SpeculativeUpdate> ahead_;
};

class SplitStateStore final : public OptimizerStateStore {
 public:
  SplitStateStore(std::unique_ptr<OptimizerStateStore> first,
                  std::unique_ptr<OptimizerStateStore> second)
      : first_(std::move(first)), second_(std::move(second)) {
    for (const OptimizerStateStore* state : {first_.get(), second_.get()}) {
      parts_.insert(parts_.end(), state->parts().begin(), state->parts().end());
    }
  }

  std::span<const StatePart> parts() const override { return parts_; }
  void each_on_device(const Look& look) override {
    first_->each_on_device(look);
    second_->each_on_device(look);
  }
  void visit(PartAccess access, const Work& work) override {
    first_->visit(access, work);
    second_->visit(access, work);
  }
  void store_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    first_->store_gradient(bucket, slice, stream);
    second_->store_gradient(bucket, slice, stream);
  }
  void load_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    first_->load_gradient(bucket, slice, stream);
    second_->load_gradient(bucket, slice, stream);
  }
  void begin_ahead(const Work& work) override {
    first_->begin_ahead(work);
    second_->begin_ahead(work);
  }
  void store_final_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    first_->store_final_gradient(bucket, slice, stream);
    second_->store_final_gradient(bucket, slice, stream);
  }
  void hand_over_ahead() override {
    first_->hand_over_ahead();
    second_->hand_over_ahead();
  }
  void end_ahead(SpeculativeUpdate::Verdict verdict) override {
    first_->end_ahead(verdict);
    second_->end_ahead(verdict);
  }

 private:
  const std::unique_ptr<OptimizerStateStore> first_, second_;
  std::vector<StatePart> parts_;
};

}  // namespace

// Part by part; of a split state some are on the device.
void OptimizerStateStore::update(const StateUpdate& update) {
  DS_CHECK(update.host != nullptr,
           "state store: state is offloaded, and no scalars are on the host");
  const Optimizer& optimizer = update.optimizer;
  const Tensor sums = optimizer.sums_per_param() > 0 ? update.sums() : Tensor();
  visit(PartAccess::kUpdate, [&](OpenPart& open) {
    if (open.is_ahead) {
      Tensor copy = open.shard.copy;
      if (copy.defined()) kernels::cast(open.stream, open.shard.master, copy);
      return;
    }
    const bool on_device = &open.stream == &update.compute;
    const std::span<Shard> part(&open.shard, 1);
    if (sums.defined()) {
      optimizer.move_weights(part, *update.host, update.group, sums, open.stream);
    } else {
      optimizer.step(part, on_device ? update.scalars : *update.host, update.group, open.stream);
    }
    DS_FAILPOINT("offload.part_updated");
  });
}

std::unique_ptr<OptimizerStateStore> make_device_state(const StateOptions& options,
                                                       std::span<const StateSlice> slices,
                                                       Stream& compute) {
  return std::make_unique<DeviceStateStore>(options, slices, compute);
}

std::unique_ptr<OptimizerStateStore> make_host_state(const StateOptions& options,
                                                     std::span<const StateSlice> slices,
                                                     Stream& compute, const HostPlace& host) {
  return std::make_unique<HostStateStore>(options, slices, compute, host);
}

std::unique_ptr<OptimizerStateStore> make_split_state(std::unique_ptr<OptimizerStateStore> first,
                                                      std::unique_ptr<OptimizerStateStore> second) {
  return std::make_unique<SplitStateStore>(std::move(first), std::move(second));
}

}  // namespace ds
