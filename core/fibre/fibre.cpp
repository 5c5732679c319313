#include "core/fibre/fibre.h"

#include <cxxabi.h>

#include <utility>

#include "core/fibre/sanitizers.h"
#include "core/fibre/switch.h"
#include "core/memory/poison.h"

namespace ds {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;
thread_local Fibre* current = nullptr;

}  // namespace

// Used again, because mapping a new one would cost more than a schedule of the simulator, or than a
// block of threads. ThreadSanitizer's thread stays with it: to that, another thread that begins to
// use the same memory would be a race.
struct Fibre::Stack {
  Stack() : bytes(new std::byte[kStackBytes]), thread(sanitizers::new_thread()) {}
  Stack(const Stack&) = delete;  // owns the thread
  Stack& operator=(const Stack&) = delete;
  ~Stack() { sanitizers::end_thread(thread); }

  const std::unique_ptr<std::byte[]> bytes;
  void* const thread;
};

// Who resumed the fibre, as sanitizers know it.
struct Fibre::Outside {
  void* thread = nullptr;
  const void* stack = nullptr;
  size_t bytes = 0;
};

const std::shared_ptr<Fibre::Stacks>& Fibre::idle_stacks() {
  thread_local const auto stacks = std::make_shared<Stacks>();
  return stacks;
}

Fibre::Fibre(std::function<void()> body, Turns turns)
    : body_(std::move(body)),
      turns_(turns),
      idle_(idle_stacks()),
      outside_(std::make_unique<Outside>()) {
  if (idle_->empty()) {
    stack_ = std::make_unique<Stack>();
  } else {
    stack_ = std::move(idle_->back());
    idle_->pop_back();
  }
  switch_ = make_fibre_switch({stack_->bytes.get(), kStackBytes}, &Fibre::enter, this);
}

Fibre::~Fibre() {
  kill();
  unpoison(stack_->bytes.get(), kStackBytes);
  idle_->push_back(std::move(stack_));
}

Fibre* Fibre::running() { return current; }

void Fibre::enter(void* self) {
  auto& own = *static_cast<Fibre*>(self);
  sanitizers::reach_stack(nullptr, &own.outside_->stack, &own.outside_->bytes);
  try {
    own.body_();
  } catch (const Killed&) {
  }
  own.over_ = true;
  own.to_outside(nullptr);
}

// The next thing that the caller does is to go there.
void Fibre::to_outside(void** kept) {
  sanitizers::leave_stack(kept, outside_->stack, outside_->bytes);
  sanitizers::become(outside_->thread, turns_ == Turns::kInOrder);
}

void Fibre::resume() {
  if (over_) return;
  begun_ = true;
  Fibre* const before = std::exchange(current, this);
  // What is being handled and thrown belongs to a stack, but the runtime keeps it per thread.
  auto* const now = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
  const Exceptions ours = std::exchange(*now, exceptions_);
  outside_->thread = sanitizers::this_thread();
  void* kept = nullptr;
  sanitizers::leave_stack(&kept, stack_->bytes.get(), kStackBytes);
  sanitizers::become(stack_->thread, turns_ == Turns::kInOrder);
  switch_->go_in();
  sanitizers::reach_stack(kept, nullptr, nullptr);
  exceptions_ = std::exchange(*now, ours);
  current = before;
}

void Fibre::give_way() {
  Fibre& own = *current;
  void* kept = nullptr;
  own.to_outside(&kept);
  own.switch_->go_out();
  sanitizers::reach_stack(kept, &own.outside_->stack, &own.outside_->bytes);
  if (own.dying_) throw Killed{};
}

void Fibre::kill() {
  dying_ = true;
  if (!begun_) over_ = true;
  while (!over_) resume();
}

}  // namespace ds
