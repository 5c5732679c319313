// SpeculativeUpdate: updates parts of a state store beside the device on a thread of its own while
// the backward pass goes on, before the norm of all gradients is known, and can go back
// (SuperOffload, Lian et al., arXiv 2509.21271). What a part is before it is updated is kept, to
// the bit, in its state store's way: whoever finds that the update should have been another one, or
// none, undoes it all. It writes masters and slots alone: the weights that the backward pass
// computes with stay as they are. On meta the same is counted on the updater's clock.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "core/device/stream_worker.h"
#include "optim/optimizer.h"

namespace ds {

// The parts that are worked on, and how each is kept as it was.
class AheadParts {
 public:
  AheadParts() = default;
  virtual ~AheadParts() = default;
  AheadParts(const AheadParts&) = delete;  // a thread refers to it
  AheadParts& operator=(const AheadParts&) = delete;

  virtual int count() const = 0;
  virtual int64_t bytes(int part) const = 0;  // of what the work may change

  // The working thread calls this. It calls `work`, which may change masters, slots and scales.
  using Work = std::function<void(int part, Stream& stream)>;
  virtual void work_on(int part, Stream& stream, const Work& work) = 0;
  // The same thread calls this while it has no work. It waits for the oldest transfer under way of
  // parts that were worked on, and returns whether there may be more.
  virtual bool finish_one() { return false; }

  // SpeculativeUpdate::end() calls this for a part that was worked on: the part is now what it has
  // become.
  virtual void keep(int /*part*/) {}
  // SpeculativeUpdate::end() calls this for a part that was added, whether or not the work on it
  // has begun or failed: the part is what it was. The thread calls it, too, for a part that it no
  // longer works on since other work has failed.
  virtual void undo(int part, Stream& stream) = 0;
};

// All calls come from one thread.
class SpeculativeUpdate {
 public:
  // Parts outlive it. `stream` is of the CPU, and nobody else's.
  SpeculativeUpdate(AheadParts& parts, Stream& stream);
  SpeculativeUpdate(const SpeculativeUpdate&) = delete;  // its thread refers to it
  SpeculativeUpdate& operator=(const SpeculativeUpdate&) = delete;

  // From now on parts that are added are worked on.
  using Work = AheadParts::Work;
  void begin(Work work);
  bool has_begun() const { return work_ != nullptr; }
  // The gradient of the part is final, and there as soon as the event is reached.
  void add(int part, const Event& there);
  // All that was added goes to the thread; waits for gradients on their way, in the order in which
  // they were added.
  void hand_over();
  // Nothing where nothing has begun. kKeep: waits for all work, whose error is thrown once all
  // parts are as they were. kUndo: what is not under way is not begun, and all parts are as they
  // were.
  enum class Verdict : uint8_t { kKeep, kUndo };
  void end(Verdict verdict);
  // Whether the part was worked on since begin() and that was kept; says so once.
  bool take_done(int part);
  // What the stream had been given by the end.
  const Event& ended_at() const { return ended_at_; }

 private:
  struct State {
    bool is_added = false;
    bool is_done = false;
  };
  struct Waiting {
    int part = 0;
    Event there{};
  };
  void work_on(int part);
  void keep();
  void undo();

  AheadParts& parts_;
  Stream& stream_;
  std::vector<State> states_;
  Work work_ = nullptr;
  std::deque<Waiting> waiting_;
  Event ended_at_{};
  StreamWorker worker_;  // the last: it works with all the others
};

// Parts whose tensors stay in memory, where they are kept beside.
class KeptParts final : public AheadParts {
 public:
  // parts: of the host's memory, which outlive it. What they were is kept in that of the stream.
  KeptParts(std::span<const Shard> parts, Stream& stream);

  int count() const override;
  int64_t bytes(int part) const override;
  void work_on(int part, Stream& stream, const Work& work) override;
  void keep(int part) override;
  void undo(int part, Stream& stream) override;

 private:
  struct State {
    std::vector<Tensor> tensors;  // what the work may change
    std::vector<Tensor> before;   // as many, of the same kind
    bool is_saved = false;
  };
  std::vector<State> states_;
};

}  // namespace ds
