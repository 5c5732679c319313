// Lane: one engine and the thread that keeps it busy. Pieces of transfers go in; the lane begins
// them, looks at every completion, continues what was short, tries once more what failed with EIO,
// and tells the transfer how it ended.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/memory/aligned_buffer.h"
#include "offload/async_io/io_figures.h"
#include "offload/async_io/io_options.h"
#include "offload/async_io/pieces.h"
#include "offload/async_io/transfer.h"

namespace ds {

// What an engine is, also when there is none any more.
struct EngineTraits {
  std::string name;
  bool aligns_by_itself = false;
  bool counts_on_fuse = true;
};

// Thread-safe.
class Lane {
 public:
  Lane(std::unique_ptr<IoEngine> engine, const IoOptions& options);
  ~Lane();                     // drops what has not begun, waits for what has
  Lane(const Lane&) = delete;  // owns a thread
  Lane& operator=(const Lane&) = delete;

  // The transfer stays until it has been told of the end of each piece.
  void add(Transfer& transfer, std::span<const Piece> pieces);

  // Whether something of the transfer waits in this lane while a block is under way for longer than
  // the options allow: which block, and for how long.
  std::optional<std::string> overdue(const Transfer& transfer) const;

  const EngineTraits& traits() const { return traits_; }
  IoFigures figures() const;

  // The engine's, as long as there is one. Each waits until the lane's thread has a moment for it.
  bool register_file(int fd);
  void unregister_file(int fd);
  bool register_memory(std::span<std::byte> memory);
  void unregister_memory(std::span<std::byte> memory);

 private:
  using Clock = std::chrono::steady_clock;
  struct Work {
    Transfer* transfer = nullptr;  // null: the slot is free
    Piece piece;
    Clock::time_point begun;
    bool tried_again = false;    // here, after an error
    bool moved_nothing = false;  // here, already
  };
  struct Ended {
    Transfer* transfer;
    int64_t pieces;
  };
  // What became of a slot's work; a rest goes to the front of the queue.
  struct Outcome {
    size_t slot = 0;
    std::optional<Work> rest;
  };

  // What others want of the engine, which is the lane's thread's alone.
  struct Errand {
    const std::function<bool(IoEngine&)>& what;
    bool is_done = false;
    bool result = false;
  };
  bool ask(const std::function<bool(IoEngine&)>& what);

  // What one turn of the thread works with.
  struct Round {
    std::vector<size_t> taken;  // slots
    std::vector<IoCompletion> completions;
    std::vector<Outcome> outcomes;
    std::vector<Ended> ended;
  };

  void run();
  void serve();
  void run_errands();
  bool take_work();
  void begin_blocks();
  IoBlock block_of(size_t slot);
  std::byte* bounce(size_t slot);
  size_t reap();
  Outcome judge(const IoCompletion& completion);
  std::optional<Work> judge_error(const Work& work, int error_number);
  std::optional<Work> judge_nothing(const Work& work);
  void settle(std::span<const Outcome> outcomes);
  void note_end(Transfer& transfer);
  void drop_queue();
  void say_who_is_waited_for();
  void give_up(const std::string& reason);

  const IoOptions options_;
  std::unique_ptr<IoEngine> engine_;
  const EngineTraits traits_;

  // The lane's thread alone uses what follows, up to the mutex.
  AlignedBuffer bounce_memory_;  // a block for each slot, once one was needed
  std::vector<IoBlock> blocks_;  // taken, not yet begun
  Round round_;
  int under_way_ = 0;
  Clock::time_point told_;
  IoFigures counted_;  // since the last settle()

  mutable std::mutex work_mutex_;
  std::condition_variable added_;
  std::deque<Work> queue_;
  std::vector<Errand*> errands_;
  std::condition_variable errand_done_;
  std::vector<Work> slots_;
  std::vector<size_t> free_slots_;
  IoFigures figures_;
  std::optional<std::string> broken_;  // why nothing is begun any more
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace ds
