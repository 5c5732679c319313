// StreamWorker: a thread that does the work of one stream of the host, item by item, in the order
// in which they were given. On meta, where work is only counted, it is done by who gives the item.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>

#include "core/device/stream.h"

namespace ds {

// All calls come from one thread.
class StreamWorker {
 public:
  struct Duties {
    std::function<void(int item)> work;
    // This is called for the items after one whose work has failed. Null: they are dropped.
    std::function<void(int item)> give_up = nullptr;
    // This is called while there are no items and returns whether there may be more of it. Null:
    // there is nothing else to do.
    std::function<bool()> finish_one = nullptr;
  };
  // `purpose`: what the thread is for, as start_thread() has it.
  StreamWorker(const Stream& stream, std::string_view purpose, Duties duties);
  ~StreamWorker();                             // what has not begun is not done
  StreamWorker(const StreamWorker&) = delete;  // its thread refers to it
  StreamWorker& operator=(const StreamWorker&) = delete;

  void give(int item);
  void drop();  // items that have not begun
  // Waits for all work. Returns the first error since the last wait, or null.
  std::exception_ptr wait();

 private:
  void run();

  const Duties duties_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<int> given_;
  bool is_working_ = false;
  bool ends_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // none on meta
};

}  // namespace ds
