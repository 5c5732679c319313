#include "core/memory/cgroup.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <sstream>

namespace ds {
namespace {

// These are the usual mount points, systemd's among them.
constexpr std::string_view kVersion1Root = "/sys/fs/cgroup/memory";
constexpr std::string_view kVersion2Root = "/sys/fs/cgroup";
// Version 1 says "no limit" by a number as large as pages allow.
constexpr int64_t kNoLimit = int64_t{1} << 60;

std::optional<std::string> text_of(const std::string& path) {
  std::ifstream in(path);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::optional<int64_t> number_in(std::string_view text) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> number_of(const std::string& path) {
  const std::optional<std::string> text = text_of(path);
  return text ? number_in(*text) : std::nullopt;  // "max" is no number: no limit
}

std::optional<int64_t> counter_of(const std::string& path, std::string_view key) {
  const std::optional<std::string> text = text_of(path);
  return text ? counter(*text, key) : std::nullopt;
}

std::optional<int64_t> real_limit(std::optional<int64_t> limit) {
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

MemoryCgroup read_place(const CgroupPlace& place) {
  MemoryCgroup out;
  out.name = place.name;
  if (place.version == 1) {
    const std::string folder = fmt::format("{}{}", kVersion1Root, place.name);
    out.limit = real_limit(number_of(folder + "/memory.limit_in_bytes"));
    out.used = number_of(folder + "/memory.usage_in_bytes");
    out.oom_kills = counter_of(folder + "/memory.oom_control", "oom_kill");
  } else {
    const std::string folder = fmt::format("{}{}", kVersion2Root, place.name);
    out.limit = real_limit(number_of(folder + "/memory.max"));
    out.used = number_of(folder + "/memory.current");
    out.oom_kills = counter_of(folder + "/memory.events", "oom_kill");
  }
  return out;
}

}  // namespace

std::optional<CgroupPlace> controller_place(std::string_view proc_cgroup,
                                            std::string_view controller) {
  const std::string wanted = fmt::format(",{},", controller);
  std::optional<CgroupPlace> unified;
  while (!proc_cgroup.empty()) {
    const size_t end = std::min(proc_cgroup.find('\n'), proc_cgroup.size());
    const std::string_view line = proc_cgroup.substr(0, end);
    proc_cgroup.remove_prefix(std::min(end + 1, proc_cgroup.size()));
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string name(line.substr(second + 1));
    if (controllers.find(wanted) != std::string::npos) return CgroupPlace{1, name};
    if (line.substr(0, first) == "0" && controllers == ",,") unified = CgroupPlace{2, name};
  }
  return unified;
}

std::optional<int64_t> counter(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    if (line.empty() || (line.front() != ' ' && line.front() != ':')) continue;
    line.remove_prefix(std::min(line.find_first_of("0123456789"), line.size()));
    const std::optional<int64_t> value = number_in(line);
    return value && line.ends_with(" kB") ? std::optional(*value * 1024) : value;
  }
  return std::nullopt;
}

MemoryCgroup memory_cgroup_of(int pid) {
  const std::string path =
      pid == 0 ? std::string("/proc/self/cgroup") : fmt::format("/proc/{}/cgroup", pid);
  const std::optional<std::string> text = text_of(path);
  const std::optional<CgroupPlace> place = text ? controller_place(*text, "memory") : std::nullopt;
  return place ? read_place(*place) : MemoryCgroup{};
}

MemoryCgroup read_again(const MemoryCgroup& group) {
  if (group.name.empty()) return {};
  // Which version it was follows from where it is.
  const bool old =
      text_of(fmt::format("{}{}/memory.oom_control", kVersion1Root, group.name)).has_value();
  return read_place({old ? 1 : 2, group.name});
}

std::optional<double> full_stall_percent(std::string_view text) {
  constexpr std::string_view kKey = "full avg10=";
  const size_t at = text.find(kKey);
  if (at == std::string_view::npos || (at != 0 && text[at - 1] != '\n')) return std::nullopt;
  text.remove_prefix(at + kKey.size());
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<MemoryPressure> memory_pressure() {
  const std::optional<std::string> groups = text_of("/proc/self/cgroup");
  const std::optional<CgroupPlace> place =
      groups ? controller_place(*groups, "memory") : std::nullopt;
  MemoryPressure out;
  std::optional<std::string> text;
  if (place && place->version == 2 && place->name != "/") {
    const std::string folder = fmt::format("{}{}", kVersion2Root, place->name);
    text = text_of(folder + "/memory.pressure");
    out.whose = "cgroup " + place->name;
    out.high = real_limit(number_of(folder + "/memory.high"));
    out.high_events = counter_of(folder + "/memory.events", "high");
  }
  if (!text) {
    text = text_of("/proc/pressure/memory");
    out = {.whose = "the machine", .high = std::nullopt, .high_events = std::nullopt};
  }
  const std::optional<double> stalled = text ? full_stall_percent(*text) : std::nullopt;
  if (!stalled) return std::nullopt;
  out.stalled_percent = *stalled;
  return out;
}

std::optional<int64_t> machine_oom_kills() { return counter_of("/proc/vmstat", "oom_kill"); }

}  // namespace ds
