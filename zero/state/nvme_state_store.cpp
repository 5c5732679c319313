// The state store of state in the swap file of a rank. A part is one extent, master and slots, and
// its gradient is another, which comes during the backward pass; both pass through the buffers of
// one staging pool. Where parts are updated ahead of the norm, a part has a second extent, and the
// last gradient goes to where it is updated on its way into the file. On meta nothing is moved, and
// what the real one would take is taken.
#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "core/device/across.h"
#include "core/memory/rounding.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"
#include "offload/rolling_run.h"
#include "offload/staged_buffer.h"
#include "zero/state/optimizer_state_store.h"
#include "zero/state/part_frame.h"
#include "zero/state/rolling_ahead.h"
#include "zero/state/state_slots.h"
#include "zero/state/state_work.h"
#include "zero/state/weight_upload.h"

namespace ds {
namespace {

// What parts pass through.
struct RollingPlace {
  const HostPlace& host;
  const SwapSpace& swap;
};

class NvmeStateStore final : public OptimizerStateStore {
 public:
  NvmeStateStore(StateOptions options, std::span<const StateSlice> slices, Stream& compute,
                 const RollingPlace& place, const NvmeStateOptions& rolling)
      : options_(std::move(options)),
        rolling_(rolling),
        host_(place.host.stream),
        account_(place.swap.account),
        disk_(place.swap.disk),
        parts_(state_parts(numel_of(slices), options_.share, options_.part_numel)),
        out_(parts_, slices, compute, place.host.pinned) {
    for (const StatePart& part : parts_) {
      fields_.push_back(fields_within(nth(slices, part.bucket).fields, part));
      const PartFrame frame(options_, part.numel);
      buffer_bytes_ = std::max(buffer_bytes_, frame.bytes());
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
      is_meta() ? plan_buffers() : open_file(place.host, place.swap);
      if (place.host.updater != nullptr) add_ahead(*place.host.updater);
    } catch (...) {
      account_.remove(to_size(file_bytes_), MemoryTag::kOptimizer);
      throw;
    }
  }
  ~NvmeStateStore() override {
    try {
      finish_stores();
    } catch (const std::exception&) {  // who stored waits no more, and the file goes
    }
    if (!parts_.empty()) account_.remove(to_size(file_bytes_), MemoryTag::kOptimizer);
  }

  std::span<const StatePart> parts() const override { return parts_; }

  void visit(PartAccess access, const Work& work) override {
    if (parts_.empty()) return;
    finish_stores();
    if (end_ahead_for(access, work)) return;
    if (ahead_) ahead_->await_all();
    // What nobody has filled yet is zeros and slots as they begin, whoever changes it first.
    const bool fills =
        access == PartAccess::kFill || (access == PartAccess::kChange && !is_filled_);
    DS_CHECK(fills || is_filled_ || is_meta(), "swapped state: read before it was filled");
    const auto on_part = [&](int part, std::byte* bytes) {
      if (fills && !is_meta()) {
        std::memset(bytes, 0, to_size(frame_of(part).state_bytes()));
      }
      work_on(access, fills, part, bytes, work);
    };
    const RollingPlan plan = plan_rolling(rolling_options(access, fills));
    if (is_meta()) {
      play(plan, pieces(access), [&](int part) { on_part(part, meta_bytes()); });
    } else {
      run_rolling(plan, pieces(access), *swapper_, *pool_,
                  [&](int part, std::span<std::byte> bytes) { on_part(part, bytes.data()); });
    }
    is_filled_ = true;
  }

  void store_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    each_of(bucket, [&](int part, const PartFrame& frame) {
      const Tensor from = nth_slice(slice, part);
      if (is_meta()) return plan_store(from, stream);
      stored_.push_back(store(part, from, frame.grad_bytes(), 0, stream));
      DS_FAILPOINT("offload.gradient_stored");
      if (!rolling_.pipeline_write) finish_stores();
    });
  }

  void store_final_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    if (!worker_ || !worker_->has_begun()) return store_gradient(bucket, slice, stream);
    each_of(bucket, [&](int part, const PartFrame& frame) {
      const Tensor from = nth_slice(slice, part);
      if (is_meta()) {
        plan_store(from, stream);
        ahead_->plan_start(part, stream);
      } else {
        // It is written for those who have to make another update, and read from where it is.
        ahead_->start(part, store(part, from, frame.bytes(), frame.grad_at(), stream));
        DS_FAILPOINT("offload.gradient_handed_over");
      }
      worker_->add(part, {});
    });
  }

  void load_gradient(int bucket, const Tensor& slice, Stream& stream) override {
    finish_stores();
    each_of(bucket, [&](int part, const PartFrame& frame) {
      const Tensor to = nth_slice(slice, part);
      if (is_meta()) {
        pass_disk(Link::kNvmeRead, to.bytes(), stream, false);
        return report_across(stream, Link::kToDevice, to.bytes());
      }
      StagedBuffer loaded{.lease = take_buffer(frame.grad_bytes(), key("gradient", part))};
      const std::span<std::byte> bytes = loaded.lease.bytes();
      loaded.under_way.push_back(swapper_->get(key("gradient", part), bytes));
      loaded.await(*swapper_);
      copy_across(stream, Link::kToDevice, bytes.data(), to.address(), to.bytes(),
                  {.what = "gradients of part", .number = part});
      stream.synchronize();
      DS_FAILPOINT("offload.gradient_loaded");
    });
  }

  void begin_ahead(const Work& work) override {
    if (!worker_) return;
    worker_->begin([this, work](int index, Stream& stream) {
      std::byte* const bytes = is_meta() ? meta_bytes() : ahead_->buffer();
      const PartFrame frame = frame_of(index);
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
  bool is_meta() const { return host_.device().is_meta(); }
  std::byte* meta_bytes() const { return static_cast<std::byte*>(planned_.address()); }
  std::string key(std::string_view what, int part) const {
    return fmt::format("group {} part {} {}", options_.name, part, what);
  }
  PartFrame frame_of(int part) const { return PartFrame(options_, nth(parts_, part).numel); }
  Tensor nth_slice(const Tensor& slice, int part) const {
    return slice.narrow(nth(parts_, part).begin, nth(parts_, part).numel);
  }

  void check_buffers() const {  // ConfigError where they are few
    plan_rolling(rolling_options(PartAccess::kUpdate, false));
  }

  // Parts have new weights before anybody may see them: they are kept in memory of the host.
  void add_ahead(Stream& updater) {
    std::vector<RollingAhead::Part> parts;
    for (int part = 0; part < count(); ++part) {
      parts.push_back({.key = key("state", part), .bytes = frame_of(part).state_bytes()});
      new_weights_.push_back(Tensor::empty({nth(parts_, part).numel}, options_.weight_dtype,
                                           updater, MemoryTag::kOptimizer));
    }
    ahead_.emplace(
        std::move(parts),
        RollingAhead::Place{.swapper = swapper_.get(), .disk = disk_, .buffers = rolling_.buffers});
    worker_.emplace(*ahead_, updater);
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
    for (const StatePart& part : parts_) {
      options.part_bytes.push_back(PartFrame(options_, part.numel).bytes());
    }
    if (access == PartAccess::kRead) options.access = RollingAccess::kRead;
    if (fills) options.access = RollingAccess::kFill;
    return options;
  }

  std::vector<RollingPieces> pieces(PartAccess access) const {
    std::vector<RollingPieces> all;
    for (int part = 0; part < count(); ++part) {
      const PartFrame frame = frame_of(part);
      RollingPieces& of = all.emplace_back();
      of.push_back(
          {.key = ahead_ ? ahead_->key(part) : key("state", part), .bytes = frame.state_bytes()});
      if (takes_gradients(access)) {
        of.push_back({.key = key("gradient", part),
                      .offset = frame.grad_at(),
                      .bytes = frame.grad_bytes(),
                      .is_written = false});
      }
    }
    return all;
  }

  void plan_buffers() {
    const int64_t bytes =
        rolling_.buffers * round_up(buffer_bytes_, kUncachedAlignment) + kUncachedAlignment;
    planned_ = Tensor::empty({bytes}, DType::kU8, host_, MemoryTag::kScratch);
  }

  void open_file(const HostPlace& host, const SwapSpace& swap) {
    if (swap.open == nullptr) {
      throw Unsupported("zero: optimizer state goes to NVMe, and this rank was given no swap file");
    }
    const bool pinned = host.pinned != nullptr;
    pool_.emplace(StagingOptions{.buffers = rolling_.buffers,
                                 .buffer_bytes = buffer_bytes_,
                                 .pinning = rolling_.pinning},
                  pinned ? host.pinned : &host_.memory(),
                  pinned ? StagingMemory::kPinned : StagingMemory::kPageable);
    swapper_ = swap.open(file_bytes_);
  }

  // On meta: what passes the disk when the stream has come so far, and waits for it, or goes on.
  void pass_disk(Link link, size_t bytes, Stream& stream, bool goes_on) {
    if (disk_ == nullptr) return;
    disk_->wait(stream.mark());
    report_across(*disk_, link, bytes);
    if (!goes_on) stream.wait(disk_->mark());
  }

  // On meta, what run_rolling() does, with the clocks of the host and of the disk alone.
  template <class WorkOn>
  void play(const RollingPlan& plan, const std::vector<RollingPieces>& pieces, const WorkOn& work) {
    std::vector<Event> moved(to_size(plan.buffers));
    const auto pass = [&](const RollingAction& action, Link link) {
      for (const RollingPiece& piece : nth(pieces, action.part)) {
        if (link == Link::kNvmeWrite && !piece.is_written) continue;
        pass_disk(link, to_size(piece.bytes), host_, true);
      }
      if (disk_ != nullptr) nth(moved, action.buffer) = disk_->mark();
    };
    for (const RollingAction& action : plan.actions) {
      switch (action.step) {
        case RollingStep::kRead:
          pass(action, Link::kNvmeRead);
          break;
        case RollingStep::kWork:
          work(action.part);
          break;
        case RollingStep::kWrite:
          pass(action, Link::kNvmeWrite);
          break;
        case RollingStep::kAwaitRead:
        case RollingStep::kAwaitWrite:
          host_.wait(nth(moved, action.buffer));
          break;
      }
    }
  }

  void work_on(PartAccess access, bool fills, int index, std::byte* bytes, const Work& work) {
    const StatePart& part = nth(parts_, index);
    const PartFrame frame = frame_of(index);
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
      if (nth(parts_, part).bucket != bucket) continue;
      move(part, frame_of(part));
    }
  }

  // Into the file, by way of a buffer of so many bytes, which has the gradient from `at` on.
  StagedBuffer store(int part, const Tensor& from, int64_t buffer_bytes, int64_t at,
                     Stream& stream) {
    const std::string name = key("gradient", part);
    if (ahead_) ahead_->await(part);  // of the step before it may still be on its way
    StagedBuffer stored{.lease = take_buffer(buffer_bytes, name)};
    const std::span<std::byte> bytes = stored.lease.bytes().subspan(to_size(at), from.bytes());
    copy_across(stream, Link::kToHost, from.address(), bytes.data(), from.bytes(),
                {.what = "gradients of part", .number = part});
    stream.synchronize();
    stored.under_way.push_back(swapper_->put(name, bytes));
    return stored;
  }
  void plan_store(const Tensor& from, Stream& stream) {
    report_across(stream, Link::kToHost, from.bytes());
    pass_disk(Link::kNvmeWrite, from.bytes(), stream, rolling_.pipeline_write);
  }

  // The oldest store that this thread has under way gives its buffer back first. The thread that
  // works ahead gives others back.
  StagingPool::Lease take_buffer(int64_t bytes, const std::string& holder) {
    const auto in_use = [this] {
      return narrow<int>(stored_.size()) + (ahead_ ? ahead_->in_use() : 0);
    };
    while (!stored_.empty() && in_use() >= rolling_.buffers) finish_oldest();
    return pool_->take(bytes, holder);
  }
  void finish_oldest() {
    StagedBuffer oldest = std::move(stored_.front());
    stored_.pop_front();
    oldest.await(*swapper_);
  }
  void finish_stores() {
    while (!stored_.empty()) finish_oldest();
  }

  const StateOptions options_;
  NvmeStateOptions rolling_;  // its buffers are those of use
  Stream& host_;
  MemoryAccount& account_;
  Stream* const disk_;  // on meta, where it may be null all the same
  const std::vector<StatePart> parts_;
  std::vector<std::vector<ShardField>> fields_;
  int64_t buffer_bytes_ = 0;  // of the largest part
  int64_t file_bytes_ = 0;
  bool is_filled_ = false;
  WeightUpload out_;
  Tensor planned_;                   // on meta, in place of the pool
  std::optional<StagingPool> pool_;  // outlives the swapper, which may still move bytes of it
  std::unique_ptr<Swapper> swapper_;
  std::deque<StagedBuffer> stored_;  // gradients on their way into the file
  std::vector<Tensor> new_weights_;  // by part, of what was updated ahead
  std::optional<RollingAhead> ahead_;
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
