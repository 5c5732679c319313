// A fibre: a function on a stack of its own that gives way and is taken up again, all on one
// thread. The simulated processes are fibres, so that the product's code runs in them as it is.
#pragma once

#include <ucontext.h>

#include <functional>
#include <memory>

namespace ds::sim {

// Thrown out of give_way() when the process is killed; unwinds the fibre's stack.
struct Killed {};

class Fibre {
 public:
  explicit Fibre(std::function<void()> body);
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
  struct Exceptions {  // as the C++ ABI lays them out
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };
  static void enter();

  const std::function<void()> body_;
  std::unique_ptr<char[]> stack_;
  ucontext_t inside_{};
  ucontext_t outside_{};
  Exceptions exceptions_{};
  bool begun_ = false;
  bool over_ = false;
  bool dying_ = false;
};

}  // namespace ds::sim
