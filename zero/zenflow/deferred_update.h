// DeferredUpdate: a piece of work at a time on a thread of its own, waited for later. On meta it is
// done at once, on the clock of its stream.
#pragma once

#include <functional>

#include "core/device/stream_worker.h"

namespace ds {

// All calls come from one thread.
class DeferredUpdate {
 public:
  // The stream is nobody else's while there is work.
  explicit DeferredUpdate(Stream& stream);
  ~DeferredUpdate();                               // what is under way is finished
  DeferredUpdate(const DeferredUpdate&) = delete;  // its thread refers to it
  DeferredUpdate& operator=(const DeferredUpdate&) = delete;

  // Begins work that comes after what other streams were given until `after`.
  void begin(std::function<void(Stream& stream)> work, const Event& after = {});
  // Waits for it, and throws its error; nothing where none has begun.
  void end();
  // What the stream had been given by the end.
  const Event& ended_at() const { return ended_at_; }

 private:
  Stream& stream_;
  std::function<void(Stream& stream)> work_;  // null: none has begun
  Event ended_at_{};
  StreamWorker worker_;
};

}  // namespace ds
