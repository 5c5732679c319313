#include "tests/offload/faulty_engine.h"

#include <algorithm>
#include <cstring>

#include "core/memory/aligned_buffer.h"
#include "core/status/error.h"

namespace ds::test {

namespace {

constexpr std::byte kGarbage{0xA5};

}  // namespace

bool IoFaults::strikes(const IoBlock& block) {
  if (fault == IoFault::kNone) return false;
  const int64_t index = count++;
  const std::scoped_lock lock(again_mutex_);
  const std::pair place(block.kind, block.offset);
  const auto begun = again_.find(place);
  if (begun != again_.end()) {
    if (begun->second == 0) return false;
    --begun->second;
    ++played;
    return true;
  }
  const bool chosen =
      index == first || (every > 0 && index > first && (index - first) % every == 0);
  if (!chosen) return false;
  again_[place] = times - 1;
  ++played;
  return true;
}

class FaultyEngine final : public IoEngine {
 public:
  FaultyEngine(std::unique_ptr<IoEngine> inner, IoFaults& faults)
      : inner_(std::move(inner)), faults_(faults) {}
  // Late ones are given to the inner engine, which waits for them, as a kernel would.
  ~FaultyEngine() override {
    std::vector<IoCompletion> rest(static_cast<size_t>(queue_depth()));
    while (under_way_ > 0) {
      reap(rest, under_way_, std::chrono::steady_clock::now() + std::chrono::milliseconds(10));
    }
  }
  FaultyEngine(const FaultyEngine&) = delete;  // owns what is under way
  FaultyEngine& operator=(const FaultyEngine&) = delete;

  std::string_view name() const override { return inner_->name(); }
  int queue_depth() const override { return inner_->queue_depth(); }
  bool aligns_by_itself() const override { return inner_->aligns_by_itself(); }
  bool counts_on_fuse() const override { return inner_->counts_on_fuse(); }
  bool register_file(int fd) override { return inner_->register_file(fd); }
  void unregister_file(int fd) override { inner_->unregister_file(fd); }
  bool register_memory(std::span<std::byte> m) override { return inner_->register_memory(m); }
  void unregister_memory(std::span<std::byte> m) override { inner_->unregister_memory(m); }

  int submit(std::span<const IoBlock> blocks) override {
    const int room = queue_depth() - under_way_;
    const int taken = std::min(static_cast<int>(blocks.size()), room);
    for (int i = 0; i < taken; ++i) begin(blocks[static_cast<size_t>(i)]);
    under_way_ += taken;
    return taken;
  }

  int reap(std::span<IoCompletion> into, int least, Deadline deadline) override {
    least = std::min({least, under_way_, static_cast<int>(into.size())});
    while (true) {
      collect(deadline, least);
      if (std::ssize(ready_) >= least || std::chrono::steady_clock::now() >= deadline) break;
    }
    const auto count = std::min(into.size(), ready_.size());
    if (faults_.reordered) std::reverse(ready_.begin(), ready_.end());
    std::copy_n(ready_.begin(), count, into.begin());
    ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(count));
    under_way_ -= static_cast<int>(count);
    return static_cast<int>(count);
  }

 private:
  struct Short {
    IoBlock asked;
    int64_t moved = 0;  // what is reported
    AlignedBuffer memory;
  };
  struct Late {
    IoBlock block;
    Deadline due;
  };

  void begin(const IoBlock& block) {
    if (!faults_.strikes(block)) return pass_on(block);
    switch (faults_.fault) {
      case IoFault::kNone:
        return pass_on(block);
      case IoFault::kNothingMoved:
        ready_.push_back({block.id, 0});
        return;
      case IoFault::kError:
        ready_.push_back({block.id, -faults_.error_number});
        return;
      case IoFault::kOneByte:
        return begin_short(block, std::min<int64_t>(block.bytes, 1));
      case IoFault::kAllButOneByte:
        return begin_short(block, std::max<int64_t>(block.bytes - 1, 1));
      case IoFault::kLate:
        late_.push_back({block, std::chrono::steady_clock::now() + faults_.late});
        return;
    }
  }

  void pass_on(const IoBlock& block) {
    if (inner_->submit({&block, 1}) != 1) throw InternalError("FaultyEngine: no room in the queue");
    ++inside_;
  }

  // The whole block moves, so that it stays aligned, but by memory whose end is garbage.
  void begin_short(const IoBlock& block, int64_t moved) {
    Short cut{block, moved, AlignedBuffer(static_cast<size_t>(block.bytes))};
    IoBlock own = block;
    own.memory = cut.memory.data();
    std::fill_n(own.memory, block.bytes, kGarbage);
    if (block.kind == IoKind::kWrite) {
      std::memcpy(own.memory, block.memory, static_cast<size_t>(moved));
    }
    shorts_.emplace(block.id, std::move(cut));
    pass_on(own);
  }

  void collect(Deadline deadline, int least) {
    const auto now = std::chrono::steady_clock::now();
    for (auto late = late_.begin(); late != late_.end();) {
      deadline = std::min(deadline, late->due);
      if (late->due > now) {
        ++late;
        continue;
      }
      pass_on(late->block);
      late = late_.erase(late);
    }
    std::vector<IoCompletion> got(static_cast<size_t>(queue_depth()));
    // With nothing inside, the inner engine's reap returns at once; wait for what is late here.
    const int wanted =
        faults_.reordered ? inside_ : std::max(least - static_cast<int>(std::ssize(ready_)), 0);
    const int count = inner_->reap(got, std::min(wanted, inside_), deadline);
    inside_ -= count;
    for (int i = 0; i < count; ++i) ready_.push_back(finish(got[static_cast<size_t>(i)]));
  }

  IoCompletion finish(IoCompletion completion) {
    const auto found = shorts_.find(completion.id);
    if (found == shorts_.end()) return completion;
    const Short& cut = found->second;
    completion.result = std::min(completion.result, cut.moved);
    if (cut.asked.kind == IoKind::kRead && completion.result > 0) {
      std::memcpy(cut.asked.memory, cut.memory.data(), static_cast<size_t>(completion.result));
    }
    shorts_.erase(found);
    return completion;
  }

  std::unique_ptr<IoEngine> inner_;
  IoFaults& faults_;
  int under_way_ = 0;  // submitted, not reaped
  int inside_ = 0;     // of those, in the inner engine
  std::map<uint64_t, Short> shorts_;
  std::vector<Late> late_;
  std::vector<IoCompletion> ready_;
};

std::unique_ptr<IoEngine> make_faulty_engine(std::unique_ptr<IoEngine> inner, IoFaults& faults) {
  return std::make_unique<FaultyEngine>(std::move(inner), faults);
}

}  // namespace ds::test
