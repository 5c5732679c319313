#include "offload/rolling_run.h"

#include <utility>
#include <vector>

#include "core/status/error.h"
#include "core/values/index.h"
#include "offload/staged_buffer.h"

namespace ds {

namespace {

// Confined to one thread.
class Roll {
 public:
  Roll(const RollingPlan& plan, std::span<const RollingPieces> parts, Swapper& swapper,
       StagingPool& pool)
      : plan_(plan),
        parts_(parts),
        swapper_(swapper),
        pool_(pool),
        buffers_(to_size(plan.buffers)) {}
  Roll(const Roll&) = delete;  // has transfers under way
  Roll& operator=(const Roll&) = delete;
  ~Roll() {
    for (StagedBuffer& buffer : buffers_) buffer.await_quietly(swapper_);
  }

  void act(const RollingAction& action, const RollingWork& work) {
    StagedBuffer& buffer = nth(buffers_, action.buffer);
    switch (action.step) {
      case RollingStep::kRead:
        take(buffer, action.part);
        for (const RollingPiece& piece : nth(parts_, action.part)) {
          buffer.under_way.push_back(swapper_.get(piece.key, bytes_of(buffer, piece)));
        }
        break;
      case RollingStep::kAwaitRead:
        buffer.await(swapper_);
        break;
      case RollingStep::kWork:
        if (plan_.access == RollingAccess::kFill) take(buffer, action.part);
        work(action.part, buffer.lease.bytes());
        if (plan_.access == RollingAccess::kRead) buffer.lease.give_back();
        break;
      case RollingStep::kWrite:
        for (const RollingPiece& piece : nth(parts_, action.part)) {
          if (!piece.is_written) continue;
          buffer.under_way.push_back(swapper_.put(piece.key, bytes_of(buffer, piece)));
        }
        break;
      case RollingStep::kAwaitWrite:
        buffer.await(swapper_);
        buffer.lease.give_back();
        break;
    }
  }

 private:
  static std::span<std::byte> bytes_of(const StagedBuffer& buffer, const RollingPiece& piece) {
    return buffer.lease.bytes().subspan(to_size(piece.offset), to_size(piece.bytes));
  }

  void take(StagedBuffer& buffer, int part) {
    buffer.lease = pool_.take(nth(plan_.part_bytes, part), nth(parts_, part).front().key);
  }

  const RollingPlan& plan_;
  const std::span<const RollingPieces> parts_;
  Swapper& swapper_;
  StagingPool& pool_;
  std::vector<StagedBuffer> buffers_;
};

}  // namespace

void run_rolling(const RollingPlan& plan, std::span<const std::string> keys, Swapper& swapper,
                 StagingPool& pool, const RollingWork& work) {
  std::vector<RollingPieces> parts;
  for (size_t part = 0; part < keys.size(); ++part) {
    const int64_t bytes = part < plan.part_bytes.size() ? plan.part_bytes[part] : 0;
    parts.push_back({{.key = keys[part], .bytes = bytes}});
  }
  run_rolling(plan, parts, swapper, pool, work);
}

void run_rolling(const RollingPlan& plan, std::span<const RollingPieces> parts, Swapper& swapper,
                 StagingPool& pool, const RollingWork& work) {
  DS_CHECK(parts.size() == plan.part_bytes.size(),
           "rolling: keys of {} parts, expected those of {}", parts.size(), plan.part_bytes.size());
  DS_CHECK(pool.buffers() >= plan.buffers && pool.buffer_bytes() >= plan.buffer_bytes,
           "rolling: a pool of {} buffers of {} bytes, expected at least {} of {}", pool.buffers(),
           pool.buffer_bytes(), plan.buffers, plan.buffer_bytes);
  Roll roll(plan, parts, swapper, pool);
  for (const RollingAction& action : plan.actions) roll.act(action, work);
}

}  // namespace ds
