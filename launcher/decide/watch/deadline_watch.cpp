#include "launcher/decide/watch/deadline_watch.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <vector>

namespace ds {
namespace {

constexpr Time kLongestGuess = std::chrono::minutes(1);
constexpr Time kLongestMargin =
    std::chrono::seconds(30);  // as long as Slurm waits between its looks
constexpr int64_t kShortJobsShare = 10;

}  // namespace

DeadlineWatch::DeadlineWatch(Time now, Time end)
    : end_(end),
      first_guess_(std::clamp((end - now) / kShortJobsShare, Time::zero(), kLongestGuess)),
      margin_(std::clamp((end - now) / kShortJobsShare, Time::zero(), kLongestMargin)) {}

void DeadlineWatch::saved(Time now, Time duration) {
  longest_save_ = std::max(longest_save_.value_or(Time::zero()), duration);
  last_step_ = now;  // the next step does not count what saving took
}

void DeadlineWatch::stepped(Time now) {
  if (last_step_) longest_step_ = std::max(longest_step_, now - *last_step_);
  last_step_ = now;
}

void DeadlineWatch::restarted() { last_step_.reset(); }

Time DeadlineWatch::stop_at() const {
  const Time save = longest_save_ ? *longest_save_ + *longest_save_ / 2 : first_guess_;
  return end_ - margin_ - save - longest_step_;
}

std::optional<Time> parse_slurm_time_left(std::string_view text) {
  const auto number = [](std::string_view digits) -> std::optional<int64_t> {
    int64_t value = 0;
    const auto [at, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool whole = !digits.empty() && digits.size() <= 6 && error == std::errc() &&
                       at == digits.data() + digits.size() && value >= 0;
    return whole ? std::optional(value) : std::nullopt;
  };
  int64_t days = 0;
  if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
    const std::optional<int64_t> read = number(text.substr(0, dash));
    if (!read) return std::nullopt;
    days = *read;
    text.remove_prefix(dash + 1);
  }
  int64_t seconds = 0;
  int parts = 0;
  while (true) {
    const size_t colon = std::min(text.find(':'), text.size());
    const std::optional<int64_t> read = number(text.substr(0, colon));
    if (!read || ++parts > 3 || (parts > 1 && *read > 59)) return std::nullopt;
    seconds = seconds * 60 + *read;
    if (colon == text.size()) break;
    text.remove_prefix(colon + 1);
  }
  return std::chrono::seconds(days * 86400 + seconds);
}

}  // namespace ds
