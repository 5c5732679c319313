#include <fmt/format.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <vector>

#include "core/status/error.h"
#include "offload/async_io/engines/deadline.h"
#include "offload/async_io/io_engine.h"

namespace ds {

namespace {

class AioEngine final : public IoEngine {
 public:
  explicit AioEngine(int queue_depth) : queue_depth_(queue_depth) {
    DS_CHECK(queue_depth >= 1, "libaio: queue depth {}, expected 1 at least", queue_depth);
    if (::syscall(SYS_io_setup, queue_depth, &context_) != 0) {
      const char* hint = errno == EAGAIN ? ", /proc/sys/fs/aio-max-nr limits it" : "";
      throw Unsupported(
          fmt::format("libaio: io_setup({}): {}{}", queue_depth, std::strerror(errno), hint));
    }
    events_.resize(static_cast<size_t>(queue_depth));
  }
  // The system call waits for what is under way.
  ~AioEngine() override { ::syscall(SYS_io_destroy, context_); }
  AioEngine(const AioEngine&) = delete;  // owns the queue
  AioEngine& operator=(const AioEngine&) = delete;

  std::string_view name() const override { return "libaio"; }
  int queue_depth() const override { return queue_depth_; }

  int submit(std::span<const IoBlock> blocks) override {
    const size_t room = static_cast<size_t>(queue_depth_ - in_kernel_) - refused_.size();
    prepare(blocks.first(std::min(blocks.size(), room)));
    size_t taken = 0;
    while (taken < requests_.size()) {
      const auto left = static_cast<long>(requests_.size() - taken);
      const long count = ::syscall(SYS_io_submit, context_, left, pointers_.data() + taken);
      if (count > 0) {
        taken += static_cast<size_t>(count);
        in_kernel_ += static_cast<int>(count);
      } else if (count < 0 && errno == EAGAIN) {
        if (in_kernel_ > 0) break;  // of what is under way something ends, and then there is room
        throw IoError("libaio: io_submit takes no block, though none is under way");
      } else if (count < 0 && errno != EINTR) {
        // It says of the first block what is wrong with it, and begins none.
        refused_.push_back({blocks[taken].id, -errno});
        ++taken;
      }
    }
    return static_cast<int>(taken);
  }

  int reap(std::span<IoCompletion> into, int least, Deadline deadline) override {
    const size_t early = std::min(refused_.size(), into.size());
    std::copy_n(refused_.begin(), early, into.begin());
    refused_.erase(refused_.begin(), refused_.begin() + static_cast<std::ptrdiff_t>(early));
    into = into.subspan(early);
    const int room = std::min(static_cast<int>(into.size()), in_kernel_);
    const int wanted = std::clamp(least - static_cast<int>(early), 0, room);
    const int count = room == 0 ? 0 : events(wanted, room, deadline);
    for (int i = 0; i < count; ++i) {
      const io_event& event = events_[static_cast<size_t>(i)];
      into[static_cast<size_t>(i)] = {event.data, event.res};
    }
    in_kernel_ -= count;
    return static_cast<int>(early) + count;
  }

 private:
  void prepare(std::span<const IoBlock> blocks) {
    requests_.assign(blocks.size(), iocb{});
    pointers_.clear();
    for (size_t i = 0; i < blocks.size(); ++i) {
      const IoBlock& block = blocks[i];
      iocb& request = requests_[i];
      request.aio_data = block.id;
      request.aio_lio_opcode = block.kind == IoKind::kRead ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
      request.aio_fildes = static_cast<uint32_t>(block.fd);
      request.aio_buf = reinterpret_cast<uintptr_t>(block.memory);
      request.aio_nbytes = static_cast<uint64_t>(block.bytes);
      request.aio_offset = block.offset;
      pointers_.push_back(&request);
    }
  }

  int events(int wanted, int room, Deadline deadline) {
    int count = 0;
    while (true) {
      timespec left = time_until<timespec>(deadline);
      const long got = ::syscall(SYS_io_getevents, context_, wanted - count, room - count,
                                 events_.data() + count, &left);
      if (got < 0 && errno != EINTR) {
        throw IoError(fmt::format("libaio: io_getevents: {}", std::strerror(errno)));
      }
      count += static_cast<int>(std::max(got, 0L));
      if (count >= wanted || std::chrono::steady_clock::now() >= deadline) return count;
    }
  }

  const int queue_depth_;
  aio_context_t context_ = 0;
  int in_kernel_ = 0;
  std::vector<IoCompletion> refused_;
  std::vector<iocb> requests_;   // of one submit()
  std::vector<iocb*> pointers_;  // to them
  std::vector<io_event> events_;
};

}  // namespace

std::unique_ptr<IoEngine> make_aio_engine(int queue_depth) {
  return std::make_unique<AioEngine>(queue_depth);
}

}  // namespace ds
