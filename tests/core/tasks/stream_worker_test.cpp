// The thread of a stream of the host: items in order, errors, what is left out, its twin on meta.
#include "core/device/stream_worker.h"

#include <atomic>
#include <thread>
#include <vector>

#include "core/device/host_tensor.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

struct Cpu {
  HostMemory heap;
  ThreadPool pool{2};
  Stream stream{{.device = Device::cpu(), .memory = &heap, .pool = &pool}};
};

TEST_CASE("items are worked on by another thread, in their order", "[core]") {
  Cpu cpu;
  std::vector<int> done;
  bool elsewhere = true;
  const std::thread::id here = std::this_thread::get_id();
  StreamWorker worker(cpu.stream, "tests", {.work = [&](int item) {
                        elsewhere = elsewhere && std::this_thread::get_id() != here;
                        done.push_back(item);
                      }});
  CHECK(worker.wait() == nullptr);
  for (int item = 0; item < 5; ++item) worker.give(item);
  CHECK(worker.wait() == nullptr);
  CHECK(done == std::vector{0, 1, 2, 3, 4});
  CHECK(elsewhere);
}

TEST_CASE("after an error items are given up until somebody waits, who hears of it once",
          "[core]") {
  Cpu cpu;
  std::vector<int> done, given_up;
  StreamWorker worker(cpu.stream, "tests",
                      {.work =
                           [&](int item) {
                             if (item == 1) throw ValidationError("it is not what it should be");
                             done.push_back(item);
                           },
                       .give_up = [&](int item) { given_up.push_back(item); }});
  for (int item = 0; item < 4; ++item) worker.give(item);
  const std::exception_ptr error = worker.wait();
  REQUIRE(error != nullptr);
  CHECK_THROWS_AS(std::rethrow_exception(error), ValidationError);
  CHECK(done == std::vector{0});
  CHECK(given_up == std::vector{2, 3});
  CHECK(worker.wait() == nullptr);
  worker.give(4);
  CHECK(worker.wait() == nullptr);
  CHECK(done == std::vector{0, 4});
}

TEST_CASE("what else there is to do is done while there are no items, until that is over",
          "[core]") {
  Cpu cpu;
  std::atomic<int> left = 0;
  std::atomic<bool> is_over = false;
  StreamWorker worker(cpu.stream, "tests",
                      {.work = [&](int item) { left += item; },
                       .finish_one =
                           [&] {
                             if (left > 0 && --left > 0) return true;
                             is_over = true;
                             is_over.notify_all();
                             return false;
                           }});
  worker.give(3);
  is_over.wait(false);
  CHECK(left == 0);
}

TEST_CASE("on meta who gives an item does it, and its error is his", "[core]") {
  MetaMemory memory;
  const Stream meta({.device = Device::meta(), .memory = &memory});
  std::vector<int> done;
  StreamWorker worker(meta, "tests", {.work = [&](int item) {
                        if (item < 0) throw ValidationError("no item");
                        done.push_back(item);
                      }});
  worker.give(2);
  CHECK(done == std::vector{2});
  CHECK_THROWS_AS(worker.give(-1), ValidationError);
  worker.drop();
  CHECK(worker.wait() == nullptr);
}

TEST_CASE("a tensor of the host has its values, one of meta none", "[core]") {
  Cpu cpu;
  const Tensor from = Tensor::zeros({3}, DType::kF32, cpu.stream);
  from.data<float>()[2] = 5;
  const Tensor to = Tensor::zeros({3}, DType::kF32, cpu.stream);
  copy_by_threads(from, to, cpu.stream);
  CHECK(host_values<float>(to).size() == 3);
  CHECK(host_values<float>(to)[2] == 5);
  CHECK_THROWS_AS(host_values<double>(to), InternalError);
  MetaMemory memory;
  Stream meta({.device = Device::meta(), .memory = &memory});
  const Tensor nothing = Tensor::empty({3}, DType::kF32, meta);
  CHECK(host_values<float>(nothing).empty());
  CHECK_NOTHROW(copy_by_threads(nothing, nothing, meta));
}

}  // namespace
}  // namespace ds
