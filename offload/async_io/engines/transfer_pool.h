// TransferPool: an IoEngine out of threads and a function that moves one block and waits for it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "offload/async_io/io_engine.h"

namespace ds {

class TransferPool : public IoEngine {
 public:
  // Bytes moved, or minus an errno. Called by several threads at once; must not throw.
  using Transfer = std::function<int64_t(const IoBlock& block)>;

  TransferPool(std::string name, int queue_depth, int threads, Transfer transfer);
  ~TransferPool() override;                    // finishes what was submitted
  TransferPool(const TransferPool&) = delete;  // owns threads
  TransferPool& operator=(const TransferPool&) = delete;

  std::string_view name() const override { return name_; }
  int queue_depth() const override { return queue_depth_; }
  int submit(std::span<const IoBlock> blocks) override;
  int reap(std::span<IoCompletion> into, int least, Deadline deadline) override;

 private:
  void close();
  void work();

  const std::string name_;
  const int queue_depth_;
  const Transfer transfer_;
  std::mutex queue_mutex_;
  std::condition_variable begun_;
  std::condition_variable done_;
  std::deque<IoBlock> waiting_;
  std::deque<IoCompletion> completed_;
  int under_way_ = 0;  // submitted and not reaped
  int wanted_ = 0;     // completions that reap() waits for
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ds
