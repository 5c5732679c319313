// The line that a dying rank writes on its standard error, from a signal handler: which signal, and
// who sent it or which address it was about. The launcher reads it and tells the user. One place
// for both ends.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ds {

inline constexpr std::string_view kSignalReportBegins = "=== signal report ";

struct SignalReport {
  int signal = 0;
  int code = 0;          // si_code: above 0 it is the kernel that says why
  int64_t sender = 0;    // pid, where a process sent it; 0: not known, or in another pid namespace
  int64_t user = 0;      // of the sender
  uint64_t address = 0;  // where memory was touched
  std::string sender_name{};  // the sender's command, empty where it was gone
};

// Nothing where the line is no note.
inline std::optional<SignalReport> parse_signal_report(std::string_view line) {
  if (!line.starts_with(kSignalReportBegins)) return std::nullopt;
  line.remove_prefix(kSignalReportBegins.size());
  SignalReport note;
  const auto take = [&](std::string_view key, auto& value, int base) {
    if (!line.starts_with(key)) return false;
    line.remove_prefix(key.size());
    const auto parsed = std::from_chars(line.data(), line.data() + line.size(), value, base);
    if (parsed.ec != std::errc()) return false;
    line.remove_prefix(static_cast<size_t>(parsed.ptr - line.data()));
    if (line.starts_with(' ')) line.remove_prefix(1);
    return true;
  };
  if (!take("signal=", note.signal, 10) || !take("code=", note.code, 10) ||
      !take("sender=", note.sender, 10) || !take("user=", note.user, 10) ||
      !take("address=", note.address, 16) || !line.starts_with("name=")) {
    return std::nullopt;
  }
  note.sender_name = std::string(line.substr(5));
  return note;
}

}  // namespace ds
