#include "rankd/verbs/tokenizing_words.h"

#include "core/values/count_text.h"

namespace ds {
namespace {

using Work = TokenizingProgress::Work;

constexpr double kNever = 1e300;

std::string bytes_text(int64_t bytes) {
  const ScaledBytes scaled = scale_bytes(static_cast<double>(bytes));
  return fmt::format("{:.{}f} {}", scaled.value, scaled.value < 10 ? 1 : 0, scaled.unit);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string_view doing(Work work) { return work == Work::kDigest ? "reading" : "tokenizing"; }

std::string end_text(const TokenizingProgress& p, double seconds) {
  const std::string tokens = count_text(p.tokens);
  if (p.work == Work::kKept) return fmt::format("{}: {} tokens, kept from before", p.path, tokens);
  return fmt::format("{}: {} tokens of {} in {}", p.path, tokens, bytes_text(p.total_bytes),
                     duration_text(seconds));
}

}  // namespace

std::optional<std::string> TokenizingWords::after(const TokenizingProgress& p, double now_s) {
  if (p.path != path_ || p.work != work_) {
    path_ = p.path;
    work_ = p.work;
    begun_s_ = now_s;
    said_s_ = now_s + pace_.first_s - pace_.next_s;
    first_byte_ = p.done_bytes;
  }
  const double seconds = now_s - begun_s_;
  if (p.is_end) return end_text(p, seconds);
  if (now_s - said_s_ < pace_.next_s) return std::nullopt;
  said_s_ = now_s;
  if (p.work == Work::kWait) {
    said_s_ = kNever;
    return fmt::format("waiting for another process that tokenizes {}", p.path);
  }
  const double rate = static_cast<double>(p.done_bytes - first_byte_) / seconds;
  std::string text =
      fmt::format("{} {}: {:.0f} % of {}", doing(p.work), p.path,
                  100.0 * static_cast<double>(p.done_bytes) / static_cast<double>(p.total_bytes),
                  bytes_text(p.total_bytes));
  if (rate > 0) {
    text += fmt::format(", {}/s, {} left", bytes_text(static_cast<int64_t>(rate)),
                        duration_text(static_cast<double>(p.total_bytes - p.done_bytes) / rate));
  }
  return text;
}

}  // namespace ds
