#include "launcher/agents/agent_protocol.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "config/reader/json_reader.h"
#include "core/status/error.h"
#include "core/text/secrecy.h"
#include "launcher/decide/text/base64.h"

namespace ds {
namespace {

// A line is: marker, '+' (more lines follow) or '.', checksum, base64.
constexpr size_t kChecksumDigits = 8;
constexpr size_t kHeaderBytes = kMarkerBytes + 1 + kChecksumDigits;
constexpr size_t kChunkBytes =
    720;  // 960 digits: with the header below the 1024 bytes of an srun line
constexpr size_t kLongestMessage = size_t{16} << 20;
constexpr std::string_view kGreeting = "dslaunch agent 1 ";

// FNV-1a over what a line must not be mixed up in: its place in the message, and its bytes.
uint32_t checksum(unsigned line, std::string_view bytes) {
  uint32_t hash = 2166136261U;
  const auto take = [&](uint32_t byte) { hash = (hash ^ (byte & 0xffU)) * 16777619U; };
  for (unsigned shift = 0; shift < 32; shift += 8) {
    take(line >> shift);
  }
  for (const char byte : bytes) {
    take(static_cast<unsigned char>(byte));
  }
  return hash;
}

std::optional<uint32_t> hexadecimal(std::string_view digits) {
  uint32_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value, 16);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(value) : std::nullopt;
}

[[noreturn]] void refuse(std::string_view what) {
  throw CommError(fmt::format("agent channel: {}", what));
}

}  // namespace

std::string greeting_line(std::string_view marker) {
  return fmt::format("{}{}\n", kGreeting, marker);
}

std::string read_greeting(std::string_view line) {
  const bool ours = line.starts_with(kGreeting) && line.size() == kGreeting.size() + kMarkerBytes;
  if (!ours) {
    throw UsageError(
        "agent: started by dslaunch on hosts, not by hand; see dslaunch run --hostfile");
  }
  return std::string(line.substr(kGreeting.size()));
}

std::string encode_message(std::string_view marker, std::string_view message) {
  DS_CHECK(marker.size() == kMarkerBytes && message.size() <= kLongestMessage,
           "agent channel: marker of {} bytes, message of {}", marker.size(), message.size());
  std::string lines;  // holds secrets, as does all that passes through here
  unsigned line = 0;
  do {
    const std::string_view chunk = message.substr(0, kChunkBytes);
    message.remove_prefix(chunk.size());
    std::string digits = encode_base64(chunk);
    append_secret(lines, fmt::format("{}{}{:08x}", marker, message.empty() ? '.' : '+',
                                     checksum(line++, chunk)));
    append_secret(lines, digits);
    append_secret(lines, "\n");
    wipe(digits);
  } while (!message.empty());
  return lines;
}

void MessageReader::feed(std::string_view bytes, const Sink& messages, const Sink& text) {
  lines_.feed(bytes, [&](std::string_view line) { take_line(line, messages, text); });
}

void MessageReader::take_line(std::string_view line, const Sink& messages, const Sink& text) {
  while (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  // A banner without a newline may stand before the marker.
  const size_t at = std::min(line.find(marker_), line.size());
  if (at > 0) {
    text(line.substr(0, at));
  }
  if (at < line.size()) {
    take_frame(line.substr(at), messages);
  }
}

void MessageReader::take_frame(std::string_view frame, const Sink& messages) {
  const bool has_header = frame.size() >= kHeaderBytes;
  const char kind = has_header ? frame[kMarkerBytes] : '?';
  const auto sum =
      has_header ? hexadecimal(frame.substr(kMarkerBytes + 1, kChecksumDigits)) : std::nullopt;
  if ((kind != '+' && kind != '.') || !sum) {
    refuse("a line with a broken header");
  }
  std::string chunk;
  try {
    chunk = decode_base64(frame.substr(kHeaderBytes));
  } catch (const ConfigError&) {
    refuse("a line that is no base64");
  }
  if (checksum(partial_lines_++, chunk) != *sum) {
    refuse("a torn or lost line");
  }
  if (partial_.size() + chunk.size() > kLongestMessage) {
    refuse(fmt::format("a message of more than {} bytes", kLongestMessage));
  }
  append_secret(partial_, chunk);
  wipe(chunk);
  if (kind == '.') {
    partial_lines_ = 0;
    std::string message = std::exchange(partial_, {});
    messages(message);
    wipe(message);
  }
}

}  // namespace ds
