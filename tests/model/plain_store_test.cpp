// PlainStore: initial weights, overwrite and accumulate, and refusal of calls out of order.
#include "model/stores/plain_store.h"

#include <cstring>

#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"

using namespace ds;
using kernels::Write;
using testing::CpuStream;

namespace {

ParamSpec ones_spec(const std::string& name) {
  return {.name = name,
          .shape = {2, 3},
          .dtype = DType::kF32,
          .init = {Initializer::Kind::kOnes, 0},
          .unit = 0};
}

}  // namespace

TEST_CASE("a sealed store leases initialised weights", "[model]") {
  CpuStream cpu;
  PlainStore store(cpu.stream, 1);
  const ParamId id = store.add(ones_spec("w"));
  CHECK_THROWS_AS(store.acquire(id), InternalError);
  store.seal();
  const Lease lease = store.acquire(id);
  CHECK(lease.weight().shape() == Shape{2, 3});
  CHECK(lease.weight().data<float>()[5] == 1.0F);
  CHECK(store.spec(id).name == "w");
}

TEST_CASE("the first contribution overwrites and later ones accumulate", "[model]") {
  CpuStream cpu;
  PlainStore store(cpu.stream, 1);
  const ParamId id = store.add(ones_spec("w"));
  store.expect_uses(id, 2);
  store.seal();
  CHECK(store.grad_slot(id).write == Write::kOverwrite);
  store.grad_ready(id);
  CHECK_THROWS_AS(store.gradient(id), InternalError);  // one of two uses is missing
  CHECK(store.grad_slot(id).write == Write::kAccumulate);
  store.grad_ready(id);
  CHECK(store.gradient(id).numel() == 6);
  CHECK(store.grad_slot(id).write == Write::kAccumulate);  // the next micro-step
  store.grad_ready(id);
  store.clear_gradients();
  CHECK(store.grad_slot(id).write == Write::kOverwrite);
}

TEST_CASE("calls out of order are refused", "[model]") {
  CpuStream cpu;
  PlainStore store(cpu.stream, 1);
  const ParamId id = store.add(ones_spec("w"));
  CHECK_THROWS_AS(store.add(ones_spec("w")), InternalError);
  store.seal();
  CHECK_THROWS_AS(store.seal(), InternalError);
  CHECK_THROWS_AS(store.add(ones_spec("v")), InternalError);
  CHECK_THROWS_AS(store.expect_uses(id, 2), InternalError);
  CHECK_THROWS_AS(store.acquire(id + 1), InternalError);
  CHECK_THROWS_AS(store.grad_ready(id), InternalError);
  store.grad_slot(id);
  CHECK_THROWS_AS(store.grad_slot(id), InternalError);
  CHECK_THROWS_AS(store.clear_gradients(), InternalError);
}

TEST_CASE("a store whose weights are loaded draws none and holds no gradients", "[model]") {
  // Memory that is not fresh keeps what stood in it.
  class Patterned final : public MemoryResource {
   public:
    void* allocate(size_t bytes, MemoryTag tag) override {
      void* const memory = host_.allocate(bytes, tag);
      std::memset(memory, 0x3f, bytes);
      return memory;
    }
    void deallocate(void* memory, size_t bytes, MemoryTag tag) noexcept override {
      host_.deallocate(memory, bytes, tag);
    }

   private:
    HostMemory host_;
  };
  Patterned memory;
  ThreadPool pool(1);
  Stream stream({.memory = &memory, .pool = &pool});
  PlainStore store(stream);
  const ParamId id = store.add(ones_spec("w"));
  store.seal();
  CHECK(store.weight(id).data<float>()[5] != 1.0F);
  CHECK_THROWS_AS(store.grad_slot(id), InternalError);
}

TEST_CASE("a store for inference holds no gradients", "[model]") {
  CpuStream cpu;
  PlainStore store(cpu.stream, 1, PlainStore::Gradients::kNone);
  const ParamId id = store.add(ones_spec("w"));
  store.seal();
  CHECK_THROWS_AS(store.grad_slot(id), InternalError);
}
