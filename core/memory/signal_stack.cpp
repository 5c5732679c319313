#include "core/memory/signal_stack.h"

#include <signal.h>

namespace ds {
namespace {

constexpr size_t kBytes = size_t{128} << 10;  // AVX-512 and AMX state are some 11 KiB of a frame

}  // namespace

SignalStack::SignalStack() {
  stack_t present{};
  if (sigaltstack(nullptr, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0) return;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(kBytes);
  stack_t mine{};
  mine.ss_sp = memory_.get();
  mine.ss_size = kBytes;
  if (sigaltstack(&mine, nullptr) != 0) memory_.reset();
}

SignalStack::~SignalStack() {
  if (!memory_) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

}  // namespace ds
