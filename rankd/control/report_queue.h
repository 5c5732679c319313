// What a rank has to tell and the launcher has not taken yet (confined to the holder of its lock):
// numbered, kept until it is acknowledged, and sent again over a new stream where one broke. So a
// launcher that stands still for a while, or a connection that is lost, costs no report.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "proto/control.pb.h"

namespace ds {

class ReportQueue {
 public:
  // Beyond so many, reports of steps make room: for a launcher that takes nothing for hours.
  explicit ReportQueue(size_t most) : most_(most) {}

  void add(control::RankMessage message);
  // What was not sent over the stream at hand yet, in order; it counts as sent then.
  std::vector<control::RankMessage> take_unsent();
  bool has_unsent() const { return sent_ < waiting_.size(); }
  void rewind() { sent_ = 0; }  // a new stream
  void acknowledged(uint64_t sequence);
  const std::deque<control::RankMessage>& waiting() const { return waiting_; }
  bool all_acknowledged() const { return waiting_.empty(); }
  uint64_t dropped() const { return dropped_; }

 private:
  void make_room();

  const size_t most_;
  std::deque<control::RankMessage> waiting_;
  size_t sent_ = 0;  // of those that wait, the first so many
  uint64_t last_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace ds
