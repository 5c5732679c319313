// The state store of state in the swap file of a rank. Parts pass through the buffers of a
// PartFile, their gradients come during the backward pass. Where parts are updated ahead of the
// norm, the last gradient is handed on to the thread that does it.
#include <algorithm>
#include <optional>
#include <utility>

#include "core/values/index.h"
#include "zero/state/meta_part_file.h"
#include "zero/state/optimizer_state_store.h"
#include "zero/state/part_frame.h"
#include "zero/state/state_slots.h"
#include "zero/state/state_work.h"
#include "zero/state/swapped_part_file.h"
#include "zero/state/weight_upload.h"

namespace ds {
namespace {

// What parts pass through.
struct RollingPlace {
  const HostPlace& host;
  const SwapSpace& swap;
};

// Unsupported without a swap file; DiskFull if it has no room.
std::unique_ptr<PartFile> make_part_file(PartFile::Layout layout, const RollingPlace& place) {
  Stream& host = place.host.stream;
  if (host.device().is_meta()) {
    return std::make_unique<MetaPartFile>(std::move(layout), host, place.swap.disk);
  }
  return std::make_unique<SwappedPartFile>(std::move(layout), place.host, place.swap);
}

class NvmeStateStore final : public OptimizerStateStore {
 public:
  NvmeStateStore(StateOptions options, std::span<const StateSlice> slices, Stream& compute,
                 const RollingPlace& place, const NvmeStateOptions& rolling)
      : options_(std::move(options)),
        rolling_(rolling),
        host_(place.host.stream),
        account_(place.swap.account),
        parts_(state_parts(numel_of(slices), options_.share, options_.part_numel)),
        out_(parts_, slices, compute, place.host.pinned) {
    int64_t buffer_bytes = 0;  // of the largest part
    for (const StatePart& part : parts_) {
      fields_.push_back(fields_within(nth(slices, part.bucket).fields, part));
      const PartFrame& frame = frames_.emplace_back(options_, part.numel);
      buffer_bytes = std::max(buffer_bytes, frame.bytes());
      const int places = place.host.updater != nullptr ? 2 : 1;
      file_bytes_ +=
          places * Swapper::room_for(frame.state_bytes()) + Swapper::room_for(frame.grad_bytes());
    }
    if (parts_.empty()) return;
    check_buffers();
    // Each part has one buffer at most, whatever room was asked for.
    const int needed = std::max(buffers_needed(rolling_options(PartAccess::kUpdate, false)),
                                buffers_needed(rolling_options(PartAccess::kUpdate, true)));
    rolling_.buffers = std::min(rolling_.buffers, std::max(count(), needed));
    account_.add(to_size(file_bytes_), MemoryTag::kOptimizer);
    try {
      file_ = make_part_file({.name = options_.name,
                              .frames = frames_,
                              .rolling = rolling_,
                              .buffer_bytes = buffer_bytes,
                              .file_bytes = file_bytes_},
                             place);
      if (place.host.updater != nullptr) add_ahead(*place.host.updater);
    } catch (...) {
      account_.remove(to_size(file_bytes_), MemoryTag::kOptimizer);
      throw;
    }
  }
  ~NvmeStateStore() override {
    if (!parts_.empty()) account_.remove(to_size(file_bytes_), MemoryTag::kOptimizer);
  }

  std::span<const StatePart> parts() const override { return parts_; }

  void visit(PartAccess access, const Work& work) override {
    if (parts_.empty()) return;
    file_->finish_stores();
    if (end_ahead_for(access, work)) return;
    file_->await_ahead();
    // What nobody has filled yet is zeros and slots as they begin, whoever changes it first.
    const bool fills =
        access == PartAccess::kFill || (access == PartAccess::kChange && !is_filled_);
    file_->visit(plan_rolling(rolling_options(access, fills)),
                 takes_gradients(access) ? PartFile::Gradients::kLoad : PartFile::Gradients::kNone,
                 [&](int part, std::byte* bytes) { work_on(access, fills, part, bytes, work); });
    is_filled_ = true;
  }

  void store_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    each_of(bucket, [&](int part) { file_->store(part, nth_slice(slice, part), stream); });
  }

  void store_final_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    if (!worker_ || !worker_->has_begun()) return store_gradient(bucket, slice, stream);
    each_of(bucket, [&](int part) {
      file_->store_ahead(part, nth_slice(slice, part), stream);
      worker_->add(part, {});
    });
  }

  void load_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    if (file_) file_->finish_stores();
    each_of(bucket, [&](int part) { file_->load(part, nth_slice(slice, part), stream); });
  }

  void begin_ahead(const Work& work) override {
    if (!worker_) return;
    worker_->begin([this, work](int index, Stream& stream) {
      std::byte* const bytes = file_->buffer_ahead();
      const PartFrame& frame = nth(frames_, index);
      Shard shard = frame.shard(bytes, stream.device());
      shard.fields = nth(fields_, index);
      shard.grad = frame.grad(bytes, stream.device());
      shard.copy = nth(new_weights_, index);
      OpenPart open{.part = nth(parts_, index), .shard = shard, .stream = stream};
      work(open);
    });
  }
  void hand_over_ahead() override {
    if (worker_) worker_->hand_over();
  }
  void end_ahead(SpeculativeUpdate::Verdict verdict) override {
    if (worker_) worker_->end(verdict);
  }

 private:
  static std::vector<int64_t> numel_of(std::span<const StateSlice> slices) {
    std::vector<int64_t> numel;
    for (const StateSlice& slice : slices) numel.push_back(slice.numel());
    return numel;
  }

  int count() const { return narrow<int>(parts_.size()); }
  Tensor nth_slice(const Tensor& slice, int part) const {
    return slice.narrow(nth(parts_, part).begin, nth(parts_, part).numel);
  }

  void check_buffers() const {  // ConfigError where they are few
    plan_rolling(rolling_options(PartAccess::kUpdate, false));
  }

  // Parts have new weights before anybody may see them: they are kept in memory of the host.
  void add_ahead(Stream& updater) {
    AheadParts& ahead = file_->work_ahead();
    for (const StatePart& part : parts_) {
      new_weights_.push_back(
          Tensor::empty({part.numel}, options_.weight_dtype, updater, MemoryTag::kOptimizer));
    }
    worker_.emplace(ahead, updater);
  }

  // Whether the visit is over: it asks for the update that was made ahead, whose weights are sent.
  bool end_ahead_for(PartAccess access, const Work& work) {
    if (!worker_) return false;
    worker_->end(SpeculativeUpdate::Verdict::kUndo);  // of a step that was not ended
    host_.wait(worker_->ended_at());
    if (access != PartAccess::kUpdate) return false;
    int done = 0;
    for (int part = 0; part < count(); ++part) {
      if (!worker_->take_done(part)) continue;
      send_new_weights(part, work);
      ++done;
    }
    DS_CHECK(done == 0 || done == count(),
             "swapped state: {} of {} parts were updated ahead, expected all or none", done,
             count());
    return done > 0;
  }
  void send_new_weights(int index, const Work& work) {
    const StatePart& part = nth(parts_, index);
    Shard shard;
    shard.master = nth(new_weights_, index);
    shard.fields = nth(fields_, index);
    shard.copy = out_.place(part, host_);
    OpenPart open{.part = part, .shard = shard, .stream = host_, .is_ahead = true};
    work_in_background(PartAccess::kUpdate, open, index, work);
    out_.send(part, host_);
  }

  RollingOptions rolling_options(PartAccess access, bool fills) const {
    RollingOptions options;
    options.buffers = rolling_.buffers;
    options.pipeline_read = rolling_.pipeline_read;
    options.pipeline_write = rolling_.pipeline_write || (fills && rolling_.fast_init);
    for (const PartFrame& frame : frames_) options.part_bytes.push_back(frame.bytes());
    if (access == PartAccess::kRead) options.access = RollingAccess::kRead;
    if (fills) options.access = RollingAccess::kFill;
    return options;
  }

  void work_on(PartAccess access, bool fills, int index, std::byte* bytes, const Work& work) {
    const StatePart& part = nth(parts_, index);
    const PartFrame& frame = nth(frames_, index);
    Shard shard = frame.shard(bytes, host_.device());
    shard.fields = nth(fields_, index);
    if (fills) begin_slots(options_.slots, shard, host_);
    if (takes_gradients(access)) shard.grad = frame.grad(bytes, host_.device());
    if (makes_weights(access)) shard.copy = out_.place(part, host_);
    OpenPart open{.part = part, .shard = shard, .stream = host_};
    work_in_background(access, open, index, work);
    if (makes_weights(access)) out_.send(part, host_);
  }

  template <class Move>
  void each_of(int bucket, const Move& move) {
    for (int part = 0; part < count(); ++part) {
      if (nth(parts_, part).bucket == bucket) move(part);
    }
  }

  const StateOptions options_;
  NvmeStateOptions rolling_;  // its buffers are those of use
  Stream& host_;
  MemoryAccount& account_;
  const std::vector<StatePart> parts_;
  std::vector<std::vector<ShardField>> fields_;
  std::vector<PartFrame> frames_;
  int64_t file_bytes_ = 0;
  bool is_filled_ = false;
  WeightUpload out_;
  std::unique_ptr<PartFile> file_;   // null: there are no parts
  std::vector<Tensor> new_weights_;  // by part, of what was updated ahead
  std::optional<SpeculativeUpdate> worker_;
};

}  // namespace

std::unique_ptr<OptimizerStateStore> make_nvme_state(const StateOptions& options,
                                                     std::span<const StateSlice> slices,
                                                     Stream& compute, const HostPlace& host,
                                                     const SwapSpace& swap,
                                                     const NvmeStateOptions& rolling) {
  return std::make_unique<NvmeStateStore>(options, slices, compute, RollingPlace{host, swap},
                                          rolling);
}

}  // namespace ds
