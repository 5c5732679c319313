// The end of the job that others have set: said at the start, and kept.
#include <fmt/chrono.h>

#include <ctime>

#include "launcher/run/supervisor.h"

namespace ds {
namespace {

// "17:55:00" in this machine's time zone, with the date where it is another day.
std::string clock_time_in(Time from_now) {
  const std::time_t now = std::time(nullptr);
  const std::time_t at = now + std::chrono::duration_cast<std::chrono::seconds>(from_now).count();
  const std::string day = fmt::format("{:%Y-%m-%d}", fmt::localtime(at));
  const bool today = day == fmt::format("{:%Y-%m-%d}", fmt::localtime(now));
  return fmt::format("{}{:%H:%M:%S}", today ? "" : day + " ", fmt::localtime(at));
}

}  // namespace

void Supervisor::announce_deadline() {
  if (!job_.time_limit) return;
  deadline_.emplace(started_, started_ + *job_.time_limit);
  const Time at = now();
  const std::string line = fmt::format(
      "saves and stops at {} or a little later, as saving turns out ({} ends the job at {})",
      clock_time_in(deadline_->stop_at() - at), job_.limited_by,
      clock_time_in(deadline_->end() - at));
  say(line);
}

void Supervisor::check_deadline() {
  if (!deadline_ || deadline_stop_ || !deadline_->due(now())) return;
  deadline_stop_ = true;
  StopRequest request;
  request.why = "the end of the job's time";
  request.grace = std::max(Time::zero(), deadline_->end() - now());
  request_stop(request,
               fmt::format("{} ends the job in {}: saving at the end of this step, then exit 75",
                           job_.limited_by, format_duration(*request.grace)));
}

}  // namespace ds
