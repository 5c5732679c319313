#include "tests/sim/fibre.h"

#include <cxxabi.h>

#include <vector>

namespace ds::sim {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;
Fibre* current = nullptr;

// Stacks are used again: mapping new ones would cost more than a schedule.
std::vector<std::unique_ptr<char[]>>& idle_stacks() {
  static std::vector<std::unique_ptr<char[]>> stacks;
  return stacks;
}

}  // namespace

Fibre::Fibre(std::function<void()> body) : body_(std::move(body)) {
  if (idle_stacks().empty()) {
    stack_.reset(new char[kStackBytes]);
  } else {
    stack_ = std::move(idle_stacks().back());
    idle_stacks().pop_back();
  }
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = &outside_;
  makecontext(&inside_, &Fibre::enter, 0);
}

Fibre::~Fibre() {
  kill();
  idle_stacks().push_back(std::move(stack_));
}

Fibre* Fibre::running() { return current; }

void Fibre::enter() {
  Fibre* const self = current;
  try {
    self->body_();
  } catch (const Killed&) {
  }
  self->over_ = true;
}

void Fibre::resume() {
  if (over_) return;
  begun_ = true;
  Fibre* const before = current;
  current = this;
  // What is being handled and thrown belongs to a stack, but the runtime keeps it per thread.
  auto* const now = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
  const Exceptions ours = *now;
  *now = exceptions_;
  swapcontext(&outside_, &inside_);
  exceptions_ = *now;
  *now = ours;
  current = before;
}

void Fibre::give_way() {
  Fibre* const self = current;
  swapcontext(&self->inside_, &self->outside_);
  if (self->dying_) throw Killed{};
}

void Fibre::kill() {
  dying_ = true;
  if (!begun_) over_ = true;
  while (!over_) resume();
}

}  // namespace ds::sim
