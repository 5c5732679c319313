// What queues know of captures, on a GPU and on the emulated device alike: who takes part in which,
// and what is refused meanwhile, before the runtime is asked and in the same words everywhere. A
// refusal (InternalError, "graph: ...") leaves the capture as it was.
#pragma once

#include <memory>
#include <string_view>

namespace ds {

// A Capture is one recording. It is confined to the thread that records.
struct Capture {
  virtual ~Capture() = default;
  bool over = false;
};

// Throws if an event was marked in a capture; `of_event` is null outside of captures. The host
// cannot wait for what is recorded and not done, nor ask whether it is.
void require_on_time_line(const Capture* of_event, std::string_view what);

// A stream took part and was not waited for at the end: the graph would end before its work does.
[[noreturn]] void refuse_unjoined();

// A CapturePart says which capture one queue takes part in.
class CapturePart {
 public:
  // The capture, null outside of any.
  std::shared_ptr<Capture> active() const {
    return capture_ && !capture_->over ? capture_ : nullptr;
  }
  bool began() const { return began_ && active() != nullptr; }

  void begin(std::shared_ptr<Capture> capture);
  // Ends it for all that take part. Only for who began it.
  void end();
  // Before the queue waits for an event: it takes part in the event's capture from now on.
  void join(const std::shared_ptr<Capture>& of_event);
  // What a queue cannot do while it takes part.
  void refuse_pageable_copy() const;
  void refuse_replay() const;

 private:
  std::shared_ptr<Capture> capture_;
  bool began_ = false;
};

}  // namespace ds
