#include "offload/staging_pool.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "core/files/file.h"
#include "core/memory/rounding.h"
#include "core/tasks/clock.h"
#include "core/values/index.h"

namespace ds {

namespace {

StagingOptions checked(StagingOptions options) {
  DS_CHECK(options.buffers >= 1 && options.buffer_bytes >= 1 && options.timeout_ms >= 0,
           "staging pool: {} buffers of {} bytes and {} ms, expected at least 1, 1 and 0",
           options.buffers, options.buffer_bytes, options.timeout_ms);
  options.buffer_bytes = round_up(options.buffer_bytes, kUncachedAlignment);
  return options;
}

std::span<std::byte> aligned(const HostBlock& block, size_t bytes) {
  void* data = block.data();
  size_t room = block.bytes();
  data = std::align(to_size(kUncachedAlignment), bytes, data, room);
  DS_CHECK(data != nullptr, "staging pool: {} bytes do not fit into {}", bytes, block.bytes());
  return {static_cast<std::byte*>(data), bytes};
}

std::string lock_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "RLIMIT_MEMLOCK is not known";
  if (limit.rlim_cur == RLIM_INFINITY) return "RLIMIT_MEMLOCK is unlimited";
  return fmt::format("RLIMIT_MEMLOCK is {} bytes", limit.rlim_cur);
}

}  // namespace

StagingPool::StagingPool(const StagingOptions& options, MemoryResource* memory, StagingMemory kind)
    : options_(checked(options)),
      block_(to_size(options_.buffers * options_.buffer_bytes + kUncachedAlignment), memory,
             options_.tag),
      memory_(aligned(block_, to_size(options_.buffers * options_.buffer_bytes))),
      is_pinned_(memory != nullptr && kind == StagingMemory::kPinned),
      buffers_(to_size(options_.buffers)) {
  if (!is_pinned_ && options_.pinning != Pinning::kNone) pin();
}

StagingPool::~StagingPool() {
  // What cannot be unlocked is when it is given back to the system.
  if (is_locked_) ::munlock(memory_.data(), memory_.size());
}

void StagingPool::pin() {
  if (::mlock(memory_.data(), memory_.size()) == 0) {
    is_pinned_ = is_locked_ = true;
    return;
  }
  const std::string reason =
      fmt::format("{} bytes cannot be pinned (mlock: {}; {})", memory_.size(),
                  std::generic_category().message(errno), lock_limit());
  if (options_.pinning == Pinning::kRequired) {
    throw ConfigError(fmt::format(
        "staging pool: {}, and pin_memory asks for it: raise the limit (ulimit -l, LimitMEMLOCK= "
        "of a service, --ulimit memlock of a container), take fewer or smaller buffers "
        "(buffer_count, buffer_size), or set pin_memory to false",
        reason));
  }
  spdlog::info("staging pool: {}; transfers go through memory that is not pinned", reason);
}

StagingPool::Lease StagingPool::take(int64_t bytes, std::string_view holder) {
  DS_CHECK(bytes >= 0 && bytes <= options_.buffer_bytes && !holder.empty(),
           "staging pool: {} bytes for \"{}\", expected at most {} and a name", bytes, holder,
           options_.buffer_bytes);
  std::unique_lock lock(buffers_mutex_);
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.timeout_ms);
  if (!given_back_.wait_until(lock, deadline, [&] { return free_buffer() >= 0; })) {
    throw StagingTimeout(fmt::format(
        "staging pool: {} waited {} ms for one of {} buffers of {} bytes, which are held by {}",
        holder, options_.timeout_ms, options_.buffers, options_.buffer_bytes, holders()));
  }
  const int buffer = free_buffer();
  nth(buffers_, buffer) = {.holder = std::string(holder),
                           .since = std::chrono::steady_clock::now()};
  return {*this, buffer, memory_.subspan(to_size(buffer * options_.buffer_bytes), to_size(bytes))};
}

int StagingPool::free_buffer() const {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].holder.empty()) return narrow<int>(i);
  }
  return -1;
}

std::string StagingPool::holders() const {
  std::vector<std::string> texts;
  for (const Buffer& buffer : buffers_) {
    texts.push_back(fmt::format("{} ({:.1f} s{})", buffer.holder, seconds_since(buffer.since),
                                buffer.is_lost ? ", a transfer that never ended" : ""));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

void StagingPool::give_back(int buffer) noexcept {
  {
    const std::lock_guard lock(buffers_mutex_);
    buffers_[static_cast<size_t>(buffer)].holder.clear();
  }
  given_back_.notify_one();
}

void StagingPool::lose(int buffer) noexcept {
  const std::lock_guard lock(buffers_mutex_);
  buffers_[static_cast<size_t>(buffer)].is_lost = true;
}

StagingPool::Lease::Lease(Lease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      buffer_(other.buffer_),
      bytes_(std::exchange(other.bytes_, {})) {}

StagingPool::Lease& StagingPool::Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  pool_ = std::exchange(other.pool_, nullptr);
  buffer_ = other.buffer_;
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

void StagingPool::Lease::give_back() noexcept {
  if (pool_ != nullptr) pool_->give_back(buffer_);
  pool_ = nullptr;
  bytes_ = {};
}

void StagingPool::Lease::abandon() noexcept {
  if (pool_ != nullptr) pool_->lose(buffer_);
  pool_ = nullptr;
  bytes_ = {};
}

}  // namespace ds
