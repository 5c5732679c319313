// What is known about the end of a rank beyond its exit status, put into words (pure): who sent the
// signal, what the kernel counted, what the rank wrote last. One block for the user, one phrase for
// the failure line.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/decide/devices/gpu_state.h"
#include "launcher/decide/memory_death.h"
#include "launcher/decide/watch/membership.h"
#include "proto/signal_report.h"

namespace ds {

// What a rank wrote on standard error before it ended; it keeps the newest lines only.
class LastOutput {
 public:
  void add(std::string_view line);
  const std::deque<std::string>& lines() const { return lines_; }
  // The rank's own account of the signal that ended it, where it could write one.
  const std::optional<SignalReport>& note() const { return note_; }

 private:
  std::deque<std::string> lines_;
  std::optional<SignalReport> note_;
};

struct DeathCircumstances {
  std::string host{};       // empty: this machine
  int64_t pid = 0;          // 0: not known
  RankProgress progress{};  // as it last said; phase is empty where it said nothing
  MemoryDeath memory{};
  std::optional<GpuState> gpu{};  // that it computed on, as it was last seen
  LastOutput words{};
};

// "killed by the kernel, which ran out of memory: cgroup /job allows 2.0 GiB", "sent by pid 12
// (bash) of user 0". Empty where the status says all there is.
std::string death_phrase(const Failure& cause, const DeathCircumstances& circumstances);

// The lines of the block below its headline, each indented by two blanks and ended by a newline.
std::string death_details(const Failure& cause, const DeathCircumstances& circumstances);

}  // namespace ds
