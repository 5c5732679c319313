// The end of the job that others have set: said at the start.
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
  if (!core_.deadline()) return;
  const Time at = now();
  say(fmt::format(
      "saves and stops at {} or a little later, as saving turns out ({} ends the job at {})",
      clock_time_in(core_.deadline()->stop_at() - at), job_.limited_by,
      clock_time_in(core_.deadline()->end() - at)));
}

}  // namespace ds
