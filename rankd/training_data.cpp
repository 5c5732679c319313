#include "rankd/training_data.h"

#include <chrono>
#include <functional>
#include <utility>

#include "rankd/verbs/tokenizing_words.h"

namespace ds {
namespace {

// What becomes of the progress of a rank's texts: the launcher learns that the rank is not stuck,
// and the user reads a line now and then.
class TokenizingReport {
 public:
  TokenizingReport(int rank, ControlClient& control) : rank_(rank), control_(control) {}

  void operator()(const TokenizingProgress& p) {
    constexpr int64_t kStep = int64_t{1} << 20;
    const bool waits = p.work == TokenizingProgress::Work::kWait;
    control_.report_progress({.step = 0,
                              .micro_step = waits ? p.done_bytes : p.done_bytes / kStep,
                              .phase = "tokenize",
                              .total = waits ? 0 : p.total_bytes / kStep});
    const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
    const std::optional<std::string> line = description_.after(p, now.count());
    if (line && (!waits || rank_ == 0)) control_.report_text(*line);
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
