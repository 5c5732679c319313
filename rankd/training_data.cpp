#include "rankd/training_data.h"

#include <chrono>
#include <functional>
#include <utility>

#include "core/values/number_text.h"
#include "rankd/run_description.h"

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

namespace {

// What becomes of the progress of a rank's texts: the launcher learns that the rank is not stuck,
// and the user reads a line now and then.
class TokenizingReport {
 public:
  TokenizingReport(int rank, ControlClient& control) : rank_(rank), control_(control) {}

  void operator()(const TokenizingProgress& p) {
    constexpr int64_t kStep = int64_t{1} << 20;
    const int64_t done = p.work == Work::kWait ? p.done_bytes : p.done_bytes / kStep;
    control_.report_progress({.step = 0, .micro_step = done, .phase = "tokenize"});
    const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
    const std::optional<std::string> line = description_.after(p, now.count());
    if (line && (p.work != Work::kWait || rank_ == 0)) control_.report_text(*line);
  }

 private:
  int rank_;
  ControlClient& control_;
  TokenizingWords description_;
};

}  // namespace

OpenedData open_training_data(const JobPlan& plan, ControlClient& control, const DataSection& data,
                              const ModelConfig& model, FileSystem& inputs, FileSystem& files) {
  std::function<void(const std::string&)> on_no_folder;
  if (!data.cache_folder) {
    on_no_folder = [&](const std::string& why) {
      if (plan.rank == 0) control.report_text(why + "; each rank holds all token ids in memory");
    };
  }
  std::unique_ptr<TokenCache> cache;
  const std::string folder = data.cache_folder.value_or(default_token_cache());
  if (!folder.empty()) {
    cache = std::make_unique<TokenCache>(
        files, TokenCache::Options{.folder = folder,
                                   .threads = plan.threads * plan.local_size,  // they wait
                                   .on_progress = TokenizingReport(plan.rank, control),
                                   .on_no_folder = on_no_folder});
  }
  TrainingData opened = open_data(data, model, inputs, cache.get());
  return {.cache = std::move(cache), .data = std::move(opened)};
}

}  // namespace ds
