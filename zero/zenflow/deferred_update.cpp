#include "zero/zenflow/deferred_update.h"

#include <utility>

#include "core/status/error.h"
#include "core/tasks/task_limits.h"

namespace ds {

DeferredUpdate::~DeferredUpdate() {
  if (thread_.joinable()) thread_.join();
}

void DeferredUpdate::begin(std::function<void(Stream& stream)> work, const Event& after) {
  DS_CHECK(!thread_.joinable(), "late work: begun while other work is under way");
  stream_.wait(after);
  if (stream_.device().is_meta()) return work(stream_);
  thread_ = start_thread("late updates", [this, work = std::move(work)] {
    try {
      work(stream_);
    } catch (...) {
      error_ = std::current_exception();
    }
  });
}

void DeferredUpdate::end() {
  if (thread_.joinable()) thread_.join();
  ended_at_ = stream_.mark();
  if (const std::exception_ptr error = std::exchange(error_, nullptr); error != nullptr) {
    std::rethrow_exception(error);
  }
}

}  // namespace ds
