#include "offload/rolling_run.h"

#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/index.h"

namespace ds {

namespace {

// Confined to one thread.
class Roll {
 public:
  Roll(const RollingPlan& plan, std::span<const std::string> keys, Swapper& swapper,
       StagingPool& pool)
      : plan_(plan), keys_(keys), swapper_(swapper), pool_(pool), buffers_(to_size(plan.buffers)) {}
  Roll(const Roll&) = delete;  // has transfers under way
  Roll& operator=(const Roll&) = delete;
  ~Roll() {
    for (Buffer& buffer : buffers_) {
      try {
        await(buffer);
      } catch (const Error&) {
        continue;  // the first error is on its way already
      }
    }
  }

  void act(const RollingAction& action, const RollingWork& work) {
    Buffer& buffer = nth(buffers_, action.buffer);
    switch (action.step) {
      case RollingStep::kRead:
        take(buffer, action.part);
        buffer.under_way = swapper_.get(nth(keys_, action.part), buffer.lease.bytes());
        break;
      case RollingStep::kAwaitRead:
        await(buffer);
        break;
      case RollingStep::kWork:
        if (plan_.access == RollingAccess::kFill) take(buffer, action.part);
        work(action.part, buffer.lease.bytes());
        if (plan_.access == RollingAccess::kRead) buffer.lease.give_back();
        break;
      case RollingStep::kWrite:
        buffer.under_way = swapper_.put(nth(keys_, action.part), buffer.lease.bytes());
        break;
      case RollingStep::kAwaitWrite:
        await(buffer);
        buffer.lease.give_back();
        break;
    }
  }

 private:
  struct Buffer {
    StagingPool::Lease lease;
    std::optional<SwapTicket> under_way;
  };

  void take(Buffer& buffer, int part) {
    buffer.lease = pool_.take(nth(plan_.part_bytes, part), nth(keys_, part));
  }

  void await(Buffer& buffer) {
    if (!buffer.under_way) return;
    const SwapTicket ticket = *std::exchange(buffer.under_way, std::nullopt);
    try {
      swapper_.wait(ticket);
    } catch (const IoTimeout&) {
      buffer.lease.abandon();
      throw;
    }
  }

  const RollingPlan& plan_;
  const std::span<const std::string> keys_;
  Swapper& swapper_;
  StagingPool& pool_;
  std::vector<Buffer> buffers_;
};

}  // namespace

void run_rolling(const RollingPlan& plan, std::span<const std::string> keys, Swapper& swapper,
                 StagingPool& pool, const RollingWork& work) {
  DS_CHECK(keys.size() == plan.part_bytes.size(),
           "rolling: {} keys, expected one for each of {} parts", keys.size(),
           plan.part_bytes.size());
  DS_CHECK(pool.buffers() >= plan.buffers && pool.buffer_bytes() >= plan.buffer_bytes,
           "rolling: a pool of {} buffers of {} bytes, expected at least {} of {}", pool.buffers(),
           pool.buffer_bytes(), plan.buffers, plan.buffer_bytes);
  Roll roll(plan, keys, swapper, pool);
  for (const RollingAction& action : plan.actions) roll.act(action, work);
}

}  // namespace ds
