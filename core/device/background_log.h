// BackgroundLog: what a rank does beside the work of the stream that computes, for those who want
// to know just then: copies between tiers, transfers of swap files, updates of state by the host.
// Each with its bytes, and when it began and ended. While nobody wants to know, that is a look at a
// flag.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/device/stream_moment.h"

namespace ds {

enum class BackgroundKind : uint8_t {
  kToDevice,
  kToHost,
  kNvmeRead,
  kNvmeWrite,
  kUpdate,       // of state, by the host, while nothing else is given
  kUpdateAhead,  // by a thread of its own
};
std::string_view name_of(
    BackgroundKind kind);  // "h2d", "d2h", "nvme_read", "nvme_write", "update", ...

// What is moved or updated; made a text only where somebody wants it.
struct BackgroundName {
  std::string_view what = {};  // "weights"
  int number = -1;             // of several; below 0: there is one
  std::string_view of = {};    // the module, where it is known
  std::string to_string() const;
};

struct BackgroundWork {
  BackgroundKind kind = BackgroundKind::kToDevice;
  std::string name;
  int64_t bytes = 0;
  StreamMoment begin{}, end{};  // by the clock of the stream that did it, or
  std::optional<StreamMoment::Clock::time_point> ended_at{};  // where nobody's stream did it
  bool is_under_way = false;  // it has no end yet: `ended_at` is when it was asked for

  double seconds() const {
    if (!ended_at) return end.seconds_since(begin);
    return std::chrono::duration<double>(*ended_at - begin.given_at()).count();
  }
};

// Thread-safe.
class BackgroundLog {
 public:
  bool is_on() const { return is_on_; }
  void turn(bool on);
  void add(BackgroundWork work);
  // Begins work that ends later, without a stream. Returns its number, for end(); 0 if the log is
  // off.
  uint64_t begin(BackgroundWork work);
  void end(uint64_t number, StreamMoment::Clock::time_point at);
  std::vector<BackgroundWork> take();            // what has ended
  std::vector<BackgroundWork> take_under_way();  // what has begun, and will not be told again

 private:
  std::atomic<bool> is_on_ = false;
  std::mutex works_mutex_;  // guards what follows
  std::vector<BackgroundWork> works_;
  std::map<uint64_t, BackgroundWork> under_way_;
  uint64_t last_ = 0;
};

// What is done beside in the stream's order is told to the log from now on, which outlives it.
void report_background(Stream& stream, BackgroundLog& log);

// For its lifetime the stream, of the host or of copies, does such work. Of a stream that is
// recorded nothing is told: it has no time.
class BackgroundSpan {
 public:
  BackgroundSpan(Stream& stream, BackgroundKind kind, const BackgroundName& name, int64_t bytes);
  ~BackgroundSpan();
  BackgroundSpan(const BackgroundSpan&) = delete;  // tells once
  BackgroundSpan& operator=(const BackgroundSpan&) = delete;

 private:
  Stream& stream_;
  BackgroundLog* const log_;  // null: nobody wants to know
  BackgroundWork work_;
};

}  // namespace ds
