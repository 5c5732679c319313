#include <ucontext.h>

#include "core/fibre/switch.h"

namespace ds {
namespace {

class UcontextSwitch final : public FibreSwitch {
 public:
  UcontextSwitch(std::span<std::byte> stack, void (*body)(void*), void* argument)
      : body_(body), argument_(argument) {
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = stack.data();
    inside_.uc_stack.ss_size = stack.size();
    inside_.uc_link = &outside_;
    makecontext(&inside_, &UcontextSwitch::enter, 0);
  }

  void go_in() override {
    entered = this;
    swapcontext(&outside_, &inside_);
  }
  void go_out() override { swapcontext(&inside_, &outside_); }

 private:
  static void enter() {
    const UcontextSwitch& self = *entered;
    self.body_(self.argument_);
  }

  static thread_local UcontextSwitch* entered;  // makecontext passes no pointers
  void (*const body_)(void*);
  void* const argument_;
  ucontext_t inside_{};
  ucontext_t outside_{};
};
thread_local UcontextSwitch* UcontextSwitch::entered = nullptr;

}  // namespace

std::unique_ptr<FibreSwitch> make_fibre_switch(std::span<std::byte> stack, void (*body)(void*),
                                               void* argument) {
  return std::make_unique<UcontextSwitch>(stack, body, argument);
}

}  // namespace ds
