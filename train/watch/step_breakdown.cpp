#include "train/watch/step_breakdown.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/tasks/clock.h"
#include "core/values/index.h"
#include "core/values/number_text.h"

namespace ds {
namespace {

constexpr size_t kOfMicroStep = 5;  // the first so many parts are of each micro-step

Breakdown divided(Breakdown sum, double by) {
  for (double& part : sum) part /= by;
  return sum;
}

// Spread is the least, the mean and the most of one figure of the ranks.
struct Spread {
  double least = 0, mean = 0, most = 0;
  size_t most_of = 0;  // the rank
};

template <class Of>
Spread spread_of(size_t ranks, const Of& of) {
  Spread spread{.least = of(0), .mean = 0, .most = of(0)};
  for (size_t rank = 0; rank < ranks; ++rank) {
    const double figure = of(rank);
    spread.least = std::min(spread.least, figure);
    spread.mean += figure / static_cast<double>(ranks);
    if (figure > spread.most) {
      spread.most = figure;
      spread.most_of = rank;
    }
  }
  return spread;
}

std::string bytes_text(size_t bytes) {
  const auto [value, unit] = scale_bytes(static_cast<double>(bytes));
  return fmt::format("{:.4g} {}", value, unit);
}

}  // namespace

Breakdown breakdown_of(const StepTimes& times, double step_seconds) {
  return {times.forward,
          times.backward,
          times.backward_inner(),
          times.reduction,
          times.update,
          times.load,
          std::max(0.0, step_seconds - times.sum())};
}

std::string breakdown_line(const Breakdown& mean) {
  std::string line = "time (ms)";
  for (size_t i = 0; i < mean.size(); ++i) {
    line += fmt::format(" | {}: {:.2f}", kBreakdownNames[i], mean[i] / kMillisecond);
  }
  return line;
}

std::string micro_step_line(const Breakdown& mean, double micro_steps) {
  std::string line = "time (ms)";
  for (size_t i = 0; i < kOfMicroStep; ++i) {
    line += fmt::format(" | {}_microstep: {:.2f}", kBreakdownNames[i],
                        mean[i] / micro_steps / kMillisecond);
  }
  return line;
}

std::string ranks_line(const std::vector<Breakdown>& of_ranks,
                       const std::vector<std::string>& hosts) {
  std::string line = "ranks, least/mean/most (ms)";
  for (size_t i = 0; i < kBreakdownNames.size(); ++i) {
    const Spread spread =
        spread_of(of_ranks.size(), [&](size_t rank) { return of_ranks[rank][i]; });
    line += fmt::format(" | {}: {:.2f}/{:.2f}/{:.2f} rank {} on {}", kBreakdownNames[i],
                        spread.least / kMillisecond, spread.mean / kMillisecond,
                        spread.most / kMillisecond, spread.most_of, hosts.at(spread.most_of));
  }
  return line;
}

std::string memory_ranks_line(const std::vector<TierPeaks>& of_ranks,
                              const std::vector<std::string>& hosts) {
  std::string line = "ranks, least/mean/most memory";
  for (int tier = 0; tier < kTiers; ++tier) {
    const Spread spread = spread_of(of_ranks.size(), [&](size_t rank) {
      return static_cast<double>(nth(of_ranks[rank], tier));
    });
    if (spread.most == 0) continue;
    const auto text = [](double bytes) { return bytes_text(static_cast<size_t>(bytes)); };
    line += fmt::format(" | {}: {}/{}/{} rank {} on {}", name_of(static_cast<Tier>(tier)),
                        text(spread.least), text(spread.mean), text(spread.most), spread.most_of,
                        hosts.at(spread.most_of));
  }
  return line;
}

std::string memory_line(const TierUsage& usage) {
  std::string line = "memory";
  for (int tier = 0; tier < kTiers; ++tier) {
    const MemoryUsage& one = nth(usage, tier);
    if (one.bytes_peak == 0) continue;
    std::string parts;
    for (int tag = 0; tag < kMemoryTags; ++tag) {
      const size_t bytes = nth(one.tag_bytes_now, tag);
      if (bytes == 0) continue;
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ",
                           name_of(static_cast<MemoryTag>(tag)), bytes_text(bytes));
    }
    line += fmt::format(" | {}: now {}, most {} ({})", name_of(static_cast<Tier>(tier)),
                        bytes_text(one.bytes_now), bytes_text(one.bytes_peak), parts);
  }
  return line;
}

StepBreakdown::StepBreakdown(StepTimer& timer, HostExchange& host, const Workspace& workspace,
                             RunReports& reports, const Options& options)
    : timer_(timer),
      host_(host),
      workspace_(workspace),
      reports_(reports),
      options_(options),
      hosts_(host.gather_host_names()) {
  if (options.times) timer_.need();
}

void StepBreakdown::after_load(const std::string& /*note*/) {
  if (options_.memory && host_.rank() == 0) {
    reports_.report_text("before the first step: " + memory_line(workspace_.usage()));
  }
}

void StepBreakdown::after_step(const StepReport& report) {
  if (options_.times && timer_.newest()) {
    const StepTimes times = times_of(*timer_.newest());
    const Breakdown step = breakdown_of(times, report.seconds);
    for (size_t i = 0; i < step.size(); ++i) sum_[i] += step[i];
    micro_steps_ += times.micro_steps;
    ++steps_;
  }
  const bool due = options_.every > 0 && report.step % options_.every == 0;
  if (due || report.step == options_.last_step) report_step(report.step);
}

void StepBreakdown::report_step(int64_t step) {
  if (options_.times && steps_ > 0) {
    const Breakdown mean = divided(sum_, static_cast<double>(steps_));
    const std::vector<Breakdown> all = host_.gather(std::vector{mean});
    if (host_.rank() == 0) {
      const double micro_steps = static_cast<double>(micro_steps_) / static_cast<double>(steps_);
      reports_.report_text(fmt::format("step {}: {}", step, micro_step_line(mean, micro_steps)));
      reports_.report_text(fmt::format("step {}: {}", step, breakdown_line(mean)));
      if (all.size() > 1) {
        reports_.report_text(fmt::format("step {}: {}", step, ranks_line(all, hosts_)));
      }
    }
    sum_ = {};
    steps_ = micro_steps_ = 0;
  }
  if (!options_.memory) return;
  const TierUsage usage = workspace_.usage();
  TierPeaks peaks{};
  for (int tier = 0; tier < kTiers; ++tier) {
    nth(peaks, tier) = narrow<int64_t>(nth(usage, tier).bytes_peak);
  }
  const std::vector<TierPeaks> all = host_.gather(std::vector{peaks});
  if (host_.rank() != 0) return;
  reports_.report_text(fmt::format("step {}: {}", step, memory_line(usage)));
  if (all.size() > 1) {
    reports_.report_text(fmt::format("step {}: {}", step, memory_ranks_line(all, hosts_)));
  }
}

}  // namespace ds
