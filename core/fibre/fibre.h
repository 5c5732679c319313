// A fibre: a function on a stack of its own that gives way and is taken up again, all on one
// thread. Simulated processes are fibres, and so are the threads of kernels on the emulated device:
// the product's code runs in them as it is. Sanitizers are told of every change of stacks.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace ds {

class FibreSwitch;

// Thrown out of give_way() when the fibre is killed; unwinds its stack.
struct Killed {};

// What ThreadSanitizer takes fibres for: one thread whose turns follow each other, or threads that
// nothing orders but what the code in them says (core/fibre/sanitizers.h).
enum class Turns { kInOrder, kUnordered };

class Fibre {
 public:
  explicit Fibre(std::function<void()> body, Turns turns = Turns::kInOrder);
  Fibre(const Fibre&) = delete;  // its stack holds pointers to itself
  Fibre& operator=(const Fibre&) = delete;
  ~Fibre();  // kills what still runs

  void resume();            // from outside, until the fibre gives way or ends
  static void give_way();   // from inside the running fibre; throws Killed
  static Fibre* running();  // null outside of all
  void kill();              // from outside: unwinds, and ends it
  bool over() const { return over_; }
  bool dying() const { return dying_; }

 private:
  struct Stack;
  struct Outside;
  using Stacks = std::vector<std::unique_ptr<Stack>>;
  struct Exceptions {  // as the C++ ABI lays them out
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };
  static const std::shared_ptr<Stacks>& idle_stacks();
  static void enter(void* self);
  void to_outside(void** kept);

  const std::function<void()> body_;
  const Turns turns_;
  const std::shared_ptr<Stacks> idle_;  // where its stack goes; fibres may outlive the thread's
  std::unique_ptr<Stack> stack_;
  std::unique_ptr<FibreSwitch> switch_;
  std::unique_ptr<Outside> outside_;
  Exceptions exceptions_{};
  bool begun_ = false;
  bool over_ = false;
  bool dying_ = false;
};

}  // namespace ds
