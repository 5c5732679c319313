// Bytes on their way into a pipe that may be full: never blocks, keeps what does not go yet, and
// nothing of what went: orders hold secrets.
#pragma once

#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/files/file.h"
#include "core/text/secrecy.h"

namespace ds {

class SendQueue {
 public:
  explicit SendQueue(Fd fd);  // taken over, becomes non-blocking
  SendQueue(SendQueue&&) = default;
  SendQueue& operator=(SendQueue&&) = default;
  ~SendQueue();

  void push(std::string_view bytes);
  // Writes what goes. False once the reader is gone.
  bool flush();
  size_t waiting() const { return waiting_.size(); }
  // Adds the descriptor if there is something to write.
  void add_poll_descriptor(std::vector<pollfd>& out) const;
  // What waits is dropped.
  void close() {
    fd_ = Fd();
    wipe(waiting_);
  }

 private:
  Fd fd_;
  std::string waiting_;
};

}  // namespace ds
