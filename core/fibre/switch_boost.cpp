#include <boost/context/fiber.hpp>
#include <boost/context/preallocated.hpp>
#include <boost/context/stack_context.hpp>
#include <utility>

#include "core/fibre/switch.h"

namespace ds {
namespace {

// Stacks are the fibres' own.
struct GivesNothingBack {
  void deallocate(boost::context::stack_context& /*stack*/) const noexcept {}
};

class BoostSwitch final : public FibreSwitch {
 public:
  BoostSwitch(std::span<std::byte> stack, void (*body)(void*), void* argument)
      : stack_(stack), body_(body), argument_(argument) {}

  void go_in() override {
    if (!begun_) begin();
    inside_ = std::move(inside_).resume();
  }
  void go_out() override { outside_ = std::move(outside_).resume(); }

 private:
  void begin() {
    boost::context::stack_context context;
    context.sp = stack_.data() + stack_.size();
    context.size = stack_.size();
    inside_ = boost::context::fiber(std::allocator_arg,
                                    boost::context::preallocated(context.sp, context.size, context),
                                    GivesNothingBack{}, [this](boost::context::fiber&& outside) {
                                      outside_ = std::move(outside);
                                      body_(argument_);
                                      return std::move(outside_);
                                    });
    begun_ = true;
  }

  const std::span<std::byte> stack_;
  void (*const body_)(void*);
  void* const argument_;
  boost::context::fiber inside_, outside_;
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<FibreSwitch> make_fibre_switch(std::span<std::byte> stack, void (*body)(void*),
                                               void* argument) {
  return std::make_unique<BoostSwitch>(stack, body, argument);
}

}  // namespace ds
