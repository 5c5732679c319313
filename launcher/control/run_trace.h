// The one trace of a running job that may be under way (pure): who was asked for one, whose has
// come, how it ended. What ranks send is kept until a rank's is whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

// As a status has it; number 0: there was none yet.
struct TraceStatus {
  int64_t number = 0;  // of the run's traces, from 1
  std::string state;   // "recording", "done", "failed"
  int64_t steps = 0;
  std::vector<int> ranks{};
  std::vector<int> ready{};  // of these, whose has come
  std::string reason;        // of "failed"
};

// The file of the run directory into which all of it goes once it is done.
inline constexpr const char* kTraceFile = "logs/trace.lines";

class RunTrace {
 public:
  static constexpr int64_t kMostSteps = 1000;
  static constexpr size_t kMostBytes = size_t{256} << 20;  // of all ranks together

  // Begins one. No ranks: all of the world. Throws UsageError for ranks or steps that cannot be,
  // Unsupported where one is under way.
  const TraceStatus& begin(int64_t steps, std::vector<int> ranks, int world_size);
  // Throws Unsupported where none is under way.
  void require_under_way() const;
  // A piece of a rank's. Where it is the last of all: {"trace": number}, and what the ranks sent,
  // one after the other.
  std::optional<std::string> take(int rank, std::string_view text, bool last);
  // The ranks are gone; a trace that is under way will never be whole.
  void epoch_ended(std::string_view reason);

  const TraceStatus& status() const { return status_; }

 private:
  bool under_way() const { return status_.state == "recording"; }
  void fail(std::string_view reason);

  TraceStatus status_;
  std::vector<std::string> parts_;  // by rank
  size_t bytes_ = 0;
};

}  // namespace ds
