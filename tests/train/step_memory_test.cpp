// What a step asks of the memory below it: nothing, after the engine is made and has done one.
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/train/runs/small_engine.h"
#include "train/plan/dry_run.h"

namespace ds {
namespace {

using namespace testing;

// Passes everything upstream and counts the calls of one rank.
class CountingMemory final : public MemoryResource {
 public:
  explicit CountingMemory(MemoryResource& upstream) : upstream_(upstream) {}
  void* allocate(size_t bytes, MemoryTag tag) override {
    ++calls;
    return upstream_.allocate(bytes, tag);
  }
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override {
    ++calls;
    upstream_.deallocate(pointer, bytes, tag);
  }
  int64_t calls = 0;

 private:
  MemoryResource& upstream_;
};

// Checks the second step, and a second evaluation of two micro-batches after it.
void check_second_step(const Setting& setting) {
  const EngineOptions options = options_of(setting);
  const RunPlan plan = dry_run(options, {.data = setting.ranks}, {});
  test::run_ranks(setting.ranks, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    HostMemory host;
    CountingMemory heap(host);
    CountingMemory shared(connections.peers().tokens().memory());
    ThreadPool pool(1);
    Stream stream({.memory = &heap, .pool = &pool});
    Stream beside({.memory = &heap, .pool = &pool});
    Engine engine(
        options,
        {.stream = stream, .host = beside, .peers = connections.peers(), .comm_memory = shared},
        plan.of_rank(0).step);
    engine.initialize();
    CountingSource source(options, comm.rank(), comm.size());
    testing::train_step(engine, source);
    engine.evaluate(source, 1);
    const int64_t heap_before = heap.calls;
    const int64_t shared_before = shared.calls;
    testing::train_step(engine, source);
    engine.evaluate(source, 2);
    test::require(heap.calls == heap_before, "{} calls of the heap", heap.calls - heap_before);
    test::require(shared.calls == shared_before, "{} calls of the memory of peers",
                  shared.calls - shared_before);
  });
}

TEST_CASE("a step and an evaluation neither allocate nor free", "[rankd]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const int ranks : {1, 2, 3}) {
        CAPTURE(stage, ranks, name_of(dtype));
        check_second_step({.ranks = ranks, .stage = stage, .dtype = dtype, .micro_steps = 2});
      }
    }
  }
}

}  // namespace
}  // namespace ds
