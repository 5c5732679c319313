#include "zero/zenflow/deferred_update.h"

#include <exception>
#include <utility>

#include "core/status/error.h"

namespace ds {

DeferredUpdate::DeferredUpdate(Stream& stream)
    : stream_(stream),
      worker_(stream, "late updates", {.work = [this](int /*item*/) { work_(stream_); }}) {}

DeferredUpdate::~DeferredUpdate() { static_cast<void>(worker_.wait()); }

void DeferredUpdate::begin(std::function<void(Stream& stream)> work, const Event& after) {
  DS_CHECK(work_ == nullptr, "late work: begun while other work is under way");
  stream_.wait(after);
  work_ = std::move(work);
  worker_.give(0);
}

void DeferredUpdate::end() {
  const std::exception_ptr error = worker_.wait();
  work_ = nullptr;
  ended_at_ = stream_.mark();
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace ds
