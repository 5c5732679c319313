// NcclEnd: one rank's handle of one group of NCCL, and what has become of it. Thread-safe: the rank
// calls, the watchdog looks, and anybody may end it.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "comm/contract/communicator.h"
#include "core/libraries/nccl.h"

namespace ds::detail {

class NcclEnd {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Call = std::function<NcclResult(NcclHandle*)>;

  struct Place {
    std::unique_ptr<Communicator> hosts;              // the same group on the hosts
    std::shared_ptr<const NcclEnd> parent = nullptr;  // of a group that was split off: ends with it
    std::string words{};                              // for messages: "rank 1 of 4 on cuda:0"
    std::chrono::milliseconds timeout{};
  };
  NcclEnd(const Nccl& nccl, Place place) : nccl_(nccl), place_(std::move(place)) {}
  ~NcclEnd() { close(); }
  NcclEnd(const NcclEnd&) = delete;  // NCCL writes into it
  NcclEnd& operator=(const NcclEnd&) = delete;

  // NCCL writes the handle here; when that is done, await() is to be called.
  NcclHandle** slot() { return &handle_; }
  // Gives NCCL a call, and waits until NCCL has taken it, which is not until it is done. CommError
  // names `what`.
  void call(const std::string& what, const Call& call);
  void await(const std::string& what);
  // The stream's marks before and behind a call that was given to it.
  void follow(const std::string& what, const Stream& stream, Event begin, Event done);
  void check() const;  // CommError where the group has failed
  // The group has failed: NCCL's kernels end, and with them whoever waits for their streams. The
  // first reason is kept.
  void fail(const std::string& why) noexcept;
  // Asks NCCL, the hosts and the streams whether it has. Waits for none of them.
  void look(TimePoint now) noexcept;
  // Gives the handle back, however the group ended.
  void close() noexcept;

  Communicator& hosts() const { return *place_.hosts; }

 private:
  struct Followed {
    std::string what;
    Event begin, done;
    TimePoint begun{};  // when the stream was seen to have reached it
  };
  NcclHandle* handle();
  NcclResult state();
  void look_at_nccl();
  void look_at_streams(TimePoint now);
  std::string words_of(NcclResult result);
  std::string awaited() const;  // the call that a stream is in, or the one made last

  const Nccl& nccl_;
  const Place place_;

  std::timed_mutex handle_mutex_;  // guards the handle: one call at a time
  NcclHandle* handle_ = nullptr;

  mutable std::mutex state_mutex_;  // guards everything below
  std::string failure_;
  std::string newest_;                                    // what it was called for last
  std::map<const void*, std::deque<Followed>> followed_;  // by stream, oldest first
  std::atomic<bool> has_failed_ = false;
};

}  // namespace ds::detail
