// How a fibre and who resumed it change places. The build decides who does it: Boost.Context
// (switch_boost.cpp) for the emulated device, whose kernels change places millions of times; for
// all others the C library (switch_ucontext.cpp), which asks the kernel for the signal mask each
// time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace ds {

class FibreSwitch {
 public:
  virtual ~FibreSwitch() = default;
  virtual void go_in() = 0;   // from outside; returns when the fibre goes out, or has ended
  virtual void go_out() = 0;  // from inside
};

// The first go_in() calls `body(argument)` on the stack. Only what has ended may be destroyed, or
// what was never entered.
std::unique_ptr<FibreSwitch> make_fibre_switch(std::span<std::byte> stack, void (*body)(void*),
                                               void* argument);

}  // namespace ds
