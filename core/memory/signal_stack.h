// A stack for signal handlers, for as long as the object lives on its thread. Code that uses the
// stack pointer for something else, as the kernels that oneDNN generates do, is not struck by a
// handler that runs here (SA_ONSTACK); neither is a stack that has overflowed.
#pragma once

#include <cstddef>
#include <memory>

namespace ds {

class SignalStack {
 public:
  SignalStack();   // does nothing where the thread has one already, such as a sanitizer's
  ~SignalStack();  // on the same thread
  SignalStack(const SignalStack&) = delete;  // belongs to its thread
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace ds
