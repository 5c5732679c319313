#include "launcher/decide/watch/hang_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "core/values/index.h"

namespace ds {
namespace {

constexpr size_t kStepsKept = 21;

}  // namespace

std::string describe(const LastCollective& collective) {
  return fmt::format("{} #{} of {}", collective.op, collective.sequence, collective.group);
}

std::string_view counted_in(std::string_view phase) {
  constexpr std::array<std::string_view, 4> kMoving{"tokenize", "load", "save", "export"};
  if (std::ranges::find(kMoving, phase) != kMoving.end()) return "MiB";
  if (phase == "sample") return "token";
  return phase == "evaluate" || phase == "reference" ? "batch" : "micro-step";
}

std::string count_of(const RankProgress& progress) {
  if (progress.micro_step == 0) return "";
  std::string out = fmt::format("{} {}", counted_in(progress.phase), progress.micro_step);
  // Files are a little longer than the numbers in them, which alone are foreseen.
  if (progress.total >= progress.micro_step) out += fmt::format(" of {}", progress.total);
  return out;
}

std::string place_of(const RankProgress& progress) {
  if (progress.phase.empty()) return "joined";
  if (!progress.knows_step()) return progress.phase;
  if (counted_in(progress.phase) == "micro-step") {
    return fmt::format("at step {}.{} {}", progress.step, progress.micro_step, progress.phase);
  }
  std::string out = fmt::format("at step {} {}", progress.step, progress.phase);
  if (const std::string count = count_of(progress); !count.empty()) out += ", " + count;
  return out;
}

std::string describe(const RankProgress& progress) {
  std::string out = place_of(progress);
  if (progress.collective.number > 0) {
    out += fmt::format(" {} {}", progress.collective.inside ? "inside" : "after",
                       describe(progress.collective));
  }
  return out;
}

HangWatch::HangWatch(Options options, int ranks)
    : options_(std::move(options)), ranks_(to_size(ranks)) {}

void HangWatch::progressed(Time now, int rank, const RankProgress& progress) {
  Watched& watched = ranks_.at(to_size(rank));
  if (!watched.present || watched.progress != progress) {
    watched = {true, now, progress};
  }
  if (progress.step <= furthest_) {
    return;
  }
  if (furthest_at_ && furthest_ > 0) {
    const Time each = (now - *furthest_at_) / (progress.step - furthest_);
    if (step_times_.size() < kStepsKept) {
      step_times_.push_back(each);
    } else {
      step_times_[next_time_++ % kStepsKept] = each;
    }
  }
  furthest_ = progress.step;
  furthest_at_ = now;
}

void HangWatch::left(int rank) { ranks_.at(to_size(rank)).present = false; }

void HangWatch::forgive(Time silence) {
  for (Watched& rank : ranks_) rank.since += silence;
}

Time HangWatch::median_step() const {
  if (step_times_.empty()) {
    return Time::zero();
  }
  std::vector<Time> sorted = step_times_;
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2));
  return sorted[sorted.size() / 2];
}

Time HangWatch::bound(const Watched& rank) const {
  const auto phase = options_.phases.find(rank.progress.phase);
  return phase != options_.phases.end() ? std::max(phase->second, options_.floor)
                                        : std::max(options_.floor, median_step() * options_.steps);
}

// Outside before inside; then the one that is behind; then the one that has been still the longest.
const HangWatch::Watched* HangWatch::culprit() const {
  const Watched* found = nullptr;
  const auto key = [](const Watched& rank) {
    const LastCollective& last = rank.progress.collective;
    return std::tuple(last.inside, last.inside ? last.number : 0, rank.since);
  };
  for (const Watched& rank : ranks_) {
    if (rank.present && (found == nullptr || key(rank) < key(*found))) found = &rank;
  }
  return found;
}

HangWatch::Hang HangWatch::describe_hang(Time now, const Watched& rank) const {
  Hang hang{.rank = static_cast<int>(&rank - ranks_.data()), .still = now - rank.since};
  hang.words = fmt::format("no progress for {:.1f} s in step {}, {}", seconds_of(now - rank.since),
                           rank.progress.step + 1, rank.progress.phase);
  if (rank.progress.collective.inside) {
    hang.words += fmt::format("; it is inside {}, and so is every other rank inside a collective",
                              describe(rank.progress.collective));
    return hang;
  }
  for (const Watched& other : ranks_) {
    if (other.present && other.progress.collective.inside) {
      hang.words += fmt::format("; it has not entered {}, where rank {} waits",
                                describe(other.progress.collective), &other - ranks_.data());
      break;
    }
  }
  return hang;
}

std::optional<HangWatch::Hang> HangWatch::hung(Time now) const {
  const Watched* const rank = culprit();
  if (rank == nullptr || now - rank->since <= bound(*rank)) {
    return std::nullopt;
  }
  return describe_hang(now, *rank);
}

std::optional<HangWatch::Hang> HangWatch::awaited(Time now) const {
  const bool somebody_waits = std::ranges::any_of(
      ranks_, [](const Watched& rank) { return rank.present && rank.progress.collective.inside; });
  const Watched* const rank = culprit();
  if (!somebody_waits || rank == nullptr || rank->progress.collective.inside) {
    return std::nullopt;
  }
  return describe_hang(now, *rank);
}

Time HangWatch::next_deadline() const {
  const Watched* const rank = culprit();
  return rank == nullptr ? Time::max() : rank->since + bound(*rank);
}

}  // namespace ds
