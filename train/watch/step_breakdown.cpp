#include "train/watch/step_breakdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/number_text.h"

namespace ds {
namespace {

constexpr double kMillisecond = 1e-3;
constexpr size_t kOfMicroStep = 5;  // the first so many parts are of each micro-step

Breakdown divided(Breakdown sum, double by) {
  for (double& part : sum) part /= by;
  return sum;
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
    const auto part = [i](const Breakdown& one) { return one[i]; };
    const auto [least, most] = std::ranges::minmax_element(of_ranks, {}, part);
    const double sum = std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0,
                                       [&](double s, const Breakdown& one) { return s + one[i]; });
    const auto slowest = static_cast<size_t>(most - of_ranks.begin());
    line += fmt::format(" | {}: {:.2f}/{:.2f}/{:.2f} rank {} on {}", kBreakdownNames[i],
                        part(*least) / kMillisecond,
                        sum / static_cast<double>(of_ranks.size()) / kMillisecond,
                        part(*most) / kMillisecond, slowest, hosts.at(slowest));
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
  if (due || report.step == options_.last_step) tell(report.step);
}

void StepBreakdown::tell(int64_t step) {
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
  if (options_.memory && host_.rank() == 0) {
    reports_.report_text(fmt::format("step {}: {}", step, memory_line(workspace_.usage())));
  }
}

}  // namespace ds
