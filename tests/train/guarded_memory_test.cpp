// The guard that the engine's tests rely on: what it lets through, and that it stops the rest.
#include "tests/support/guarded_memory.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "core/device/tensor.h"
#include "kernels/elementwise/elementwise.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using namespace testing;

struct Guarded {
  GuardedMemory memory;
  ThreadPool pool{1};
  Stream stream{{.memory = &memory, .pool = &pool, .gate = &memory}};
};

// Returns the signal by which a process ends that does this; 0: none.
template <class Act>
int signal_that_ends(const Act& act) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // not the test program's own report
    const rlimit none{};
    setrlimit(RLIMIT_CORE, &none);
    act();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_CASE("the host faults on a tensor that is closed to it", "[train]") {
  Guarded g;
  const Tensor tensor = Tensor::zeros({4}, DType::kF32, g.stream);
  const auto read = [&] { static_cast<void>(*static_cast<volatile float*>(tensor.raw())); };
  CHECK(signal_that_ends(read) == 0);
  {
    const ClosedToHost closed(g.memory);
    CHECK(signal_that_ends(read) == SIGSEGV);
    CHECK(signal_that_ends([&] { *tensor.data<float>() = 1; }) == SIGSEGV);
  }
  CHECK(signal_that_ends(read) == 0);
}

TEST_CASE("kernels, copies and fills reach what is closed to the host", "[train]") {
  Guarded g;
  float three = 3, read = 0;
  {
    const ClosedToHost closed(g.memory);
    Tensor tensor = Tensor::zeros({1}, DType::kF32, g.stream);
    g.stream.copy(&three, tensor.address(), sizeof three);
    kernels::scale(g.stream, 2, tensor);
    g.stream.copy(tensor.address(), &read, sizeof read);
  }
  CHECK(read == 6);
}

TEST_CASE("guarded memory hands out what was given back, joined with its neighbours", "[train]") {
  GuardedMemory memory(4 * kMemoryAlignment);
  const auto tag = MemoryTag::kScratch;
  void* first = memory.allocate(1, tag);
  void* second = memory.allocate(kMemoryAlignment, tag);  // two units: it is never full
  void* third = memory.allocate(0, tag);
  CHECK_THROWS_AS(memory.allocate(0, tag), OutOfMemory);
  memory.deallocate(first, 1, tag);
  memory.deallocate(third, 0, tag);
  memory.deallocate(second, kMemoryAlignment, tag);
  CHECK(memory.allocate(3 * kMemoryAlignment, tag) == first);
}

}  // namespace
}  // namespace ds
