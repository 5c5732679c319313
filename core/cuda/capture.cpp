#include "core/cuda/capture.h"

#include <utility>

#include "core/status/error.h"

namespace ds {
namespace {

[[noreturn]] void refuse(std::string_view what, std::string_view why) {
  throw InternalError(fmt::format("graph: {}: {}", what, why));
}

}  // namespace

void require_on_time_line(const Capture* of_event, std::string_view what) {
  if (of_event == nullptr) return;
  refuse(what, of_event->over ? "the event was marked while a graph was recorded, and is no point "
                                "in the work of a stream; mark one after replay()"
                              : "the stream is being recorded, what it is given is not done");
}

void refuse_unjoined() {
  refuse("end_capture",
         "a stream that takes part is not waited for; the stream that began has to wait for an "
         "event after its last work");
}

void CapturePart::begin(std::shared_ptr<Capture> capture) {
  if (active()) refuse("begin_capture", "the stream is being recorded already");
  capture_ = std::move(capture);
  began_ = true;
}

void CapturePart::end() {
  if (!began()) refuse("end_capture", "the stream did not begin a recording");
  capture_->over = true;
  capture_ = nullptr;
  began_ = false;
}

void CapturePart::join(const std::shared_ptr<Capture>& of_event) {
  constexpr std::string_view kWhat = "wait";
  if (of_event != nullptr && of_event->over) require_on_time_line(of_event.get(), kWhat);
  const std::shared_ptr<Capture> own = active();
  if (own == of_event) return;
  if (of_event == nullptr) {
    refuse(kWhat, "an event from before the recording; wait for it before replay()");
  }
  if (own != nullptr) refuse(kWhat, "an event of another recording");
  capture_ = of_event;
  began_ = false;
}

void CapturePart::refuse_pageable_copy() const {
  if (active()) refuse("copy", "host memory that is not pinned may be gone when the graph runs");
}

void CapturePart::refuse_replay() const {
  if (active()) refuse("replay", "the stream is being recorded, and graphs do not contain others");
}

}  // namespace ds
