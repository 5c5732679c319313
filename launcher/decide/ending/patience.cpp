#include "launcher/decide/ending/patience.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace ds {
namespace {

constexpr Time kMostOfOneLook = std::chrono::seconds(1);

}  // namespace

std::optional<Patience::Verdict> Patience::look(Time now, std::optional<int> signal,
                                                const std::optional<BoundedWork>& work,
                                                int number) {
  const Time passed = looked_ ? std::min(now - *looked_, kMostOfOneLook) : Time::zero();
  looked_ = now;
  unheeded_ = signal ? unheeded_ + passed : Time::zero();
  worked_ = work && number == number_ ? worked_ + passed : Time::zero();
  number_ = number;
  if (signal && unheeded_ >= kUnheededSignal) {
    return Verdict{128 + *signal,
                   fmt::format("SIG{} was not heeded for {:.0f} s{}", sigabbrev_np(*signal),
                               seconds_of(kUnheededSignal), work ? ", while " + work->what : "")};
  }
  if (work && worked_ >= work->longest) {
    return Verdict{work->exit_code, fmt::format("{} takes longer than {:.0f} s", work->what,
                                                seconds_of(work->longest))};
  }
  return std::nullopt;
}

}  // namespace ds
