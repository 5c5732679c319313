#include "launcher/process/send_queue.h"

#include <fcntl.h>

#include <cerrno>

#include "core/text/secrecy.h"
#include "core/values/index.h"

namespace ds {

SendQueue::SendQueue(Fd fd) : fd_(std::move(fd)) {
  fcntl(fd_.get(), F_SETFL, fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
}

SendQueue::~SendQueue() { wipe(waiting_); }

void SendQueue::push(std::string_view bytes) { append_secret(waiting_, bytes); }

bool SendQueue::flush() {
  size_t sent = 0;
  bool open = fd_.valid();
  while (open && sent < waiting_.size()) {
    const ssize_t wrote = write(fd_.get(), waiting_.data() + sent, waiting_.size() - sent);
    if (wrote >= 0) {
      sent += to_size(wrote);
    } else if (errno == EAGAIN) {
      break;
    } else {
      open = errno == EINTR;
    }
  }
  drop_front(waiting_, sent);
  return open;
}

void SendQueue::add_poll_descriptor(std::vector<pollfd>& out) const {
  if (fd_.valid() && !waiting_.empty()) {
    out.push_back({fd_.get(), POLLOUT, 0});
  }
}

}  // namespace ds
