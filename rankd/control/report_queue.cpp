#include "rankd/control/report_queue.h"

#include <algorithm>

namespace ds {

void ReportQueue::add(control::RankMessage message) {
  if (waiting_.size() >= most_) make_room();
  message.set_sequence(++last_);
  waiting_.push_back(std::move(message));
}

// The oldest step goes: what is rare, such as a commit or the end, is worth more.
void ReportQueue::make_room() {
  const auto step = std::ranges::find_if(
      waiting_, [](const control::RankMessage& message) { return message.has_step(); });
  if (step == waiting_.end()) return;
  if (step - waiting_.begin() < static_cast<std::ptrdiff_t>(sent_)) --sent_;
  waiting_.erase(step);
  ++dropped_;
}

std::vector<control::RankMessage> ReportQueue::take_unsent() {
  std::vector<control::RankMessage> out(waiting_.begin() + static_cast<std::ptrdiff_t>(sent_),
                                        waiting_.end());
  sent_ = waiting_.size();
  return out;
}

void ReportQueue::acknowledged(uint64_t sequence) {
  while (!waiting_.empty() && waiting_.front().sequence() <= sequence) {
    waiting_.pop_front();
    if (sent_ > 0) --sent_;
  }
}

}  // namespace ds
