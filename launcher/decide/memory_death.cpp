#include "launcher/decide/memory_death.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "core/files/file.h"
#include "core/values/index.h"

namespace ds {
namespace {

// The kernel stamps its records with a clock that may differ a little from ours.
constexpr std::chrono::seconds kClockSlack{2};

std::string_view value_after(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size());
  return text.substr(0, text.find_first_of(",\n"));
}

// The last thing that the kernel's log says about the process. Two records tell of a kill: one
// names the cgroup, the other how large the process was.
MemoryDeath kernel_log_about(int pid, int64_t since_us) {
  MemoryDeath out;
  const Fd log(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::array<char, 8192> record{};
  while (log.valid()) {
    const ssize_t got = read(log.get(), record.data(), record.size());
    if (got < 0 && (errno == EPIPE || errno == EINTR))
      continue;  // overwritten while we read: go on
    if (got <= 0) break;
    const auto found = memory_death_in({record.data(), to_size(got)}, pid, since_us);
    if (!found) continue;
    out.out_of_memory = true;
    if (!found->cgroup.empty()) out.cgroup = found->cgroup;
    if (!found->kernel_line.empty()) out.kernel_line = found->kernel_line;
  }
  return out;
}

}  // namespace

std::optional<MemoryDeath> memory_death_in(std::string_view record, int pid, int64_t since_us) {
  // "6,1234,5678901,-;text": priority, number, microseconds, flags.
  const size_t semicolon = record.find(';');
  if (semicolon == std::string_view::npos) return std::nullopt;
  std::string_view head = record.substr(0, semicolon);
  for (int field = 0; field < 2; ++field)
    head.remove_prefix(std::min(head.find(',') + 1, head.size()));
  int64_t at_us = 0;
  std::from_chars(head.data(), head.data() + head.size(), at_us);
  std::string_view text = record.substr(semicolon + 1);
  text = text.substr(0, text.find('\n'));
  if (at_us < since_us) return std::nullopt;
  MemoryDeath out;
  out.out_of_memory = true;
  if (text.find(fmt::format("Killed process {} (", pid)) != std::string_view::npos) {
    out.kernel_line = std::string(text);
    return out;
  }
  if (text.starts_with("oom-kill:") && value_after(text, ",pid=") == std::to_string(pid)) {
    out.cgroup = std::string(value_after(text, "oom_memcg="));
    return out;
  }
  return std::nullopt;
}

MemoryWatch::MemoryWatch()
    : since_(std::chrono::steady_clock::now()),
      group_(memory_cgroup_of(0)),
      machine_kills_(machine_oom_kills()) {}

MemoryDeath MemoryWatch::examine(int pid) const {
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(
      (since_ - kClockSlack).time_since_epoch());
  MemoryDeath out = kernel_log_about(pid, since.count());
  const MemoryCgroup now = read_again(group_);
  const bool ours = now.oom_kills && group_.oom_kills && *now.oom_kills > *group_.oom_kills;
  const std::optional<int64_t> machine_now = machine_oom_kills();
  const bool machine = machine_now && machine_kills_ && *machine_now > *machine_kills_;
  out.looked = out.out_of_memory || now.oom_kills.has_value() || machine_now.has_value();
  if (!out.out_of_memory && (ours || machine)) {
    out.out_of_memory = true;
    out.cgroup = ours ? group_.name : "";
  }
  if (!out.cgroup.empty()) {
    MemoryCgroup full;
    full.name = out.cgroup;
    out.cgroup_limit = (out.cgroup == group_.name ? now : read_again(full)).limit.value_or(0);
  }
  return out;
}

}  // namespace ds
