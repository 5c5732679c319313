// RollingAhead: parts of a swap file that are updated ahead of the norm. A part has two places in
// the file: its state is read from one, and what it becomes is written to the other. To keep that
// is to look there from now on, to go back is to look where it was: no byte passes the disk for
// either. Writes go on behind what comes next, also behind the end of the step.
//
// The thread of the step begins reads, in buffers that hold the gradients already; the thread that
// works ahead waits for them, begins writes, and waits for these while it has no work.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "core/device/stream.h"
#include "offload/staged_buffer.h"
#include "zero/state/speculative_update.h"

namespace ds {

class RollingAhead final : public AheadParts {
 public:
  struct Part {
    std::string key;    // of the state in the file; there is one more, "other " before it
    int64_t bytes = 0;  // of the state, which lies at the front of its buffer
  };
  // The swapper outlives it.
  RollingAhead(std::vector<Part> parts, Swapper& swapper);
  ~RollingAhead() override;  // waits for what is under way

  // The thread of the step calls what follows, up to start().
  // key() says where the state of the part lies now.
  std::string key(int part) const;
  // Until nothing of the part is under way, or of any.
  void await(int part);
  void await_all();
  // How many buffers it has; only start() makes them more.
  int in_use() const;
  // Begins to read the part into the buffer, which has its gradient, and from which that may still
  // be written. Nothing else of the part is under way.
  void start(int part, StagedBuffer buffer);

  // The thread that works calls this:
  std::byte* buffer() const { return buffer_; }  // of the part that is worked on

  int count() const override { return narrow<int>(states_.size()); }
  int64_t bytes(int part) const override { return nth(states_, part).part.bytes; }
  void work_on(int part, Stream& stream, const Work& work) override;
  bool finish_one() override;
  void keep(int part) override;
  void undo(int part, Stream& stream) override;

 private:
  struct State {
    Part part;
    bool is_other = false;  // where it lies now
    // The mutex_ guards what follows.
    StagedBuffer buffer{};  // until somebody works on it
    bool is_started = false;
    bool is_busy = false;  // something is under way, or will be
  };
  struct Writing {
    int part = 0;
    StagedBuffer buffer;
  };
  std::string key_of(int part, bool other) const;
  std::span<std::byte> state_bytes(const StagedBuffer& buffer, int part) const;
  StagedBuffer take(int part);
  void release(int part, StagedBuffer& buffer);

  Swapper& swapper_;
  std::vector<State> states_;
  std::byte* buffer_ = nullptr;
  std::deque<Writing> writing_;  // of the thread that works

  mutable std::mutex mutex_;  // see State
  std::condition_variable released_;
  int in_use_ = 0;
};

}  // namespace ds
