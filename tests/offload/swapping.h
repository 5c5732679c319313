// What tests of swapping share: data that differ from byte to byte, an engine that fails where it
// is told to, and files that are changed behind the swapper's back.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/files/file.h"
#include "core/values/index.h"
#include "offload/swapper.h"

namespace ds::test {

using Bytes = std::vector<std::byte>;

inline Bytes random_bytes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xffU);
  return bytes;
}

// Hands on to threads; what `result_of` gives takes the place of a transfer. While `hangs` is true,
// no block completes that `result_of` has a result for.
class FailingEngine final : public IoEngine {
 public:
  using ResultOf = std::function<std::optional<int64_t>(const IoBlock& block)>;
  explicit FailingEngine(ResultOf result_of, const std::atomic<bool>* hangs = nullptr)
      : result_of_(std::move(result_of)), hangs_(hangs) {}

  std::string_view name() const override { return "failing"; }
  int queue_depth() const override { return inner_->queue_depth(); }
  int submit(std::span<const IoBlock> blocks) override {
    int begun = 0;
    for (const IoBlock& block : blocks) {
      if (const std::optional<int64_t> result = result_of_(block)) {
        done_.push_back({.id = block.id, .result = *result});
      } else if (inner_->submit({&block, 1}) == 0) {
        break;
      }
      ++begun;
    }
    return begun;
  }
  int reap(std::span<IoCompletion> into, int least, Deadline deadline) override {
    int count = 0;
    while (true) {
      while (!hanging() && !done_.empty() && std::cmp_less(count, into.size())) {
        nth(into, count++) = done_.back();
        done_.pop_back();
      }
      const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
      const bool waits_for_both = hanging() && !done_.empty();
      count += inner_->reap(into.subspan(to_size(count)), std::max(least - count, 0),
                            waits_for_both ? std::min(soon, deadline) : deadline);
      if (!waits_for_both || count >= least || soon > deadline) return count;
      std::this_thread::sleep_until(soon);
    }
  }

 private:
  bool hanging() const { return hangs_ != nullptr && *hangs_; }

  ResultOf result_of_;
  const std::atomic<bool>* hangs_;
  std::vector<IoCompletion> done_;
  std::unique_ptr<IoEngine> inner_ = make_thread_engine(8, 2);
};

inline std::unique_ptr<AsyncIo> thread_io(FailingEngine::ResultOf result_of = nullptr,
                                          const std::atomic<bool>* hangs = nullptr) {
  if (!result_of) result_of = [](const IoBlock&) { return std::nullopt; };
  std::vector<std::unique_ptr<IoEngine>> engines;
  engines.push_back(std::make_unique<FailingEngine>(std::move(result_of), hangs));
  constexpr int64_t kNever = 60'000;
  return std::make_unique<AsyncIo>(
      std::move(engines),
      IoOptions{.block_size = 16384, .timeout_ms = hangs == nullptr ? kNever : 100});
}

inline SwapperOptions swap_options(const std::string& directory, int rank = 0) {
  return {.directory = directory,
          .owner = {.job = "night-run", .epoch = 3, .rank = rank, .world = 2},
          .bytes = 1 << 20,
          .block_bytes = 4096};
}

inline void put_and_wait(Swapper& swapper, std::string_view key, const Bytes& bytes) {
  swapper.wait(swapper.put(key, bytes));
}
inline Bytes get_and_wait(Swapper& swapper, std::string_view key, size_t count) {
  Bytes bytes(count);
  swapper.wait(swapper.get(key, bytes));
  return bytes;
}

inline Bytes file_bytes(const std::string& path, int64_t offset, size_t count) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Bytes bytes(count);
  read_fully(fd.get(), offset, bytes, path);
  return bytes;
}
inline void change_file(const std::string& path, int64_t offset, std::span<const std::byte> bytes) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  write_fully(fd.get(), offset, bytes, path);
}
inline void flip_bit(const std::string& path, int64_t offset, int bit) {
  Bytes byte = file_bytes(path, offset, 1);
  byte[0] ^= static_cast<std::byte>(1U << static_cast<unsigned>(bit));
  change_file(path, offset, byte);
}

}  // namespace ds::test
