#include <unistd.h>

#include <cerrno>

#include "offload/async_io/engines/transfer_pool.h"

namespace ds {

namespace {

int64_t move_bytes(const IoBlock& block) {
  while (true) {
    const auto bytes = static_cast<size_t>(block.bytes);
    const ssize_t moved = block.kind == IoKind::kRead
                              ? ::pread(block.fd, block.memory, bytes, block.offset)
                              : ::pwrite(block.fd, block.memory, bytes, block.offset);
    if (moved >= 0) return moved;
    if (errno != EINTR) return -errno;
  }
}

}  // namespace

std::unique_ptr<IoEngine> make_thread_engine(int queue_depth, int threads) {
  return std::make_unique<TransferPool>("threads", queue_depth, threads, move_bytes);
}

}  // namespace ds
