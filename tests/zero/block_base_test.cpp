// Frozen weights that are kept as block codes: every rank computes with what the codes of each
// parameter stand for, however they are cut, and codes take the bytes that their form says.
#include <algorithm>
#include <map>
#include <mutex>

#include "core/memory/rounding.h"
#include "kernels/elementwise/elementwise.h"
#include "model/pass/initializer.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/zero/device_rank.h"
#include "zero/sharded_store.h"

namespace ds {
namespace {

using testing::DeviceRank;
using Weights = std::map<std::string, std::vector<float>>;

// Two fill whole blocks of all forms, one has a short last block; the last one trains.
const std::vector<std::pair<Shape, int>> kParams{
    {Shape{64, 16}, 0}, {Shape{37, 5}, 0}, {Shape{8, 128}, 1}, {Shape{40, 3}, 1}};

const std::vector<kernels::BlockCode> kCodes{
    {.table = kernels::BlockTable::kNf4, .scale = kernels::BlockScale::kFp8, .block = 64},
    {.table = kernels::BlockTable::kNf4, .scale = kernels::BlockScale::kFp32, .block = 64},
    {.table = kernels::BlockTable::kInt8, .scale = kernels::BlockScale::kFp32, .block = 256},
    {.table = kernels::BlockTable::kFp8, .scale = kernels::BlockScale::kFp32, .block = 512}};

ParamSpec spec_of(size_t i, DType dtype) {
  return {.name = "p" + std::to_string(i),
          .shape = kParams[i].first,
          .dtype = dtype,
          .init = {.kind = Initializer::Kind::kNormal, .extent = 0.5F},
          .trains = i + 1 == kParams.size(),
          .packs = true,
          .unit = kParams[i].second};
}

ZeroOptions options_of(int stage, const kernels::BlockCode& code) {
  return {.layout = {.bucket_numel = 100'000, .persistence_numel = 1000, .base_code = code},
          .placement = {.policy = zero_policy(stage)},
          .state = {.slots = {{.name = "exp_avg"}, {.name = "exp_avg_sq"}}}};
}

// Calls work with a store of these on each rank.
void on_ranks(int ranks, const ZeroOptions& options, DType dtype,
              const std::function<void(ShardedStore&, Stream&, int rank)>& work) {
  test::run_ranks(ranks, [&](Communicator& world) {
    DeviceRank rank(world);
    Mesh mesh = Mesh::over(rank.comm(), {.data = ranks});
    ShardedStore store(options, mesh, {rank.stream(), rank.stream()}, rank.comm().memory());
    for (size_t i = 0; i < kParams.size(); ++i) store.add(spec_of(i, dtype));
    store.seal();
    work(store, rank.stream(), world.rank());
  });
}

Weights weights_of(ShardedStore& store) {
  Weights result;
  for (ParamId id = 0; id < store.count(); ++id) {
    const Lease lease = store.acquire(id);
    result[store.spec(id).name] = testing::floats_of(lease.weight());
  }
  return result;
}

// What is seen in a micro-step on one rank, the last.
Weights begun(int ranks, int stage, const kernels::BlockCode& code, DType dtype) {
  Weights of_last;
  std::mutex mutex;
  on_ranks(ranks, options_of(stage, code), dtype,
           [&](ShardedStore& store, Stream& stream, int rank) {
             store.state().initialize(7);
             store.step().begin();
             store.begin_micro_step();
             Weights weights = weights_of(store);
             const ParamId last = store.count() - 1;
             {
               const Lease lease = store.acquire(last);
               GradSlot slot = store.grad_slot(last);
               kernels::cast(stream, lease.weight(), slot.grad);
             }
             store.grad_ready(last);
             store.end_micro_step();
             const std::lock_guard lock(mutex);
             if (rank + 1 == ranks) of_last = std::move(weights);
           });
  return of_last;
}

std::vector<float> rounded(const std::vector<float>& values, DType dtype, Stream& stream) {
  const Shape shape{narrow<int64_t>(values.size())};
  Tensor made = Tensor::empty(shape, dtype, stream, MemoryTag::kScratch);
  kernels::cast(stream, testing::upload(values, shape, stream), made);
  return testing::floats_of(made);
}

// What codes of a whole parameter stand for, in the dtype of the weight.
std::vector<float> through_codes(const std::vector<float>& values, const kernels::BlockCode& code,
                                 DType dtype, Stream& stream) {
  const int64_t numel = narrow<int64_t>(values.size()), padded = round_up(numel, code.block);
  std::vector<float> all = values;
  all.resize(to_size(padded));
  const Tensor weights = testing::upload(all, {padded}, stream);
  const Tensor codes = Tensor::empty({code.bytes(padded)}, DType::kU8, stream, MemoryTag::kScratch);
  const Tensor unfit = Tensor::zeros({1}, DType::kI32, stream, MemoryTag::kScratch);
  kernels::pack_blocks(stream, weights, code, codes, unfit);
  Tensor made = Tensor::empty({padded}, dtype, stream, MemoryTag::kScratch);
  kernels::unpack_blocks(stream, codes, code, made);
  std::vector<float> out = testing::floats_of(made);
  out.resize(values.size());
  return out;
}

TEST_CASE("a base in codes has the bits of each parameter's own blocks, however it is cut",
          "[zero][device]") {
  for (const kernels::BlockCode& code : kCodes) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Weights expected;
      test::run_ranks(1, [&](Communicator& world) {
        DeviceRank rank(world);
        for (size_t i = 0; i < kParams.size(); ++i) {
          const ParamSpec spec = spec_of(i, dtype);
          std::vector<float> values(to_size(spec.shape.numel()));
          Tensor flat = Tensor::borrow(values.data(), {spec.shape.numel()}, DType::kF32);
          ThreadPool pool(1);
          initialize(spec, 7, 0, flat, &pool);
          if (!spec.trains) values = through_codes(values, code, dtype, rank.stream());
          if (spec.trains) values = rounded(values, dtype, rank.stream());
          expected[spec.name] = std::move(values);
        }
      });
      for (const int ranks : {1, 2, 3}) {
        for (int stage = 0; stage <= 3; ++stage) {
          CAPTURE(kernels::block_levels(code.table).first_step, code.block, name_of(dtype), ranks,
                  stage);
          CHECK(begun(ranks, stage, code, dtype) == expected);
        }
      }
    }
  }
}

TEST_CASE("a base in codes is shown and restored in fp32, and stays as it is", "[zero][device]") {
  for (const kernels::BlockCode& code : kCodes) {
    for (const int stage : {0, 1, 3}) {
      on_ranks(2, options_of(stage, code), DType::kBF16,
               [&](ShardedStore& store, Stream& stream, int) {
                 store.state().initialize(3);
                 const Weights before = weights_of(store);
                 std::vector<std::vector<float>> shown;
                 store.state().visit_owned(Visit::kSave, [&](OwnedPart& part) {
                   shown.push_back(testing::floats_of(part.master));
                 });
                 store.state().initialize(4);
                 test::require(weights_of(store) != before, "other seeds give equal weights");
                 size_t next = 0;
                 store.state().visit_owned(Visit::kRestore, [&](OwnedPart& part) {
                   const std::vector<float>& values = shown.at(next++);
                   kernels::cast(stream,
                                 testing::upload(values, {narrow<int64_t>(values.size())}, stream),
                                 part.master);
                 });
                 store.state().restore_from_owned();
                 test::require(weights_of(store) == before, "a restored base is another one");
                 next = 0;
                 store.state().visit_owned(Visit::kSave, [&](OwnedPart& part) {
                   test::require(testing::floats_of(part.master) == shown.at(next++),
                                 "a restored base is shown as another one");
                 });
               });
    }
  }
}

TEST_CASE("numbers that codes cannot stand for are refused, by the names of parameters",
          "[zero][device]") {
  for (const float bad : {std::numeric_limits<float>::infinity(), 100.0F}) {
    on_ranks(1, options_of(0, kCodes.front()), DType::kF32,
             [&](ShardedStore& store, Stream& stream, int) {
               store.state().initialize(3);
               const auto spoil = [&] {
                 store.state().visit_owned(Visit::kRestore, [&](OwnedPart& part) {
                   std::vector<float> values = testing::floats_of(part.master);
                   values[5] = bad;
                   kernels::cast(stream, testing::upload(values, part.master.shape(), stream),
                                 part.master);
                 });
               };
               try {
                 spoil();
               } catch (const DataError& error) {
                 const std::string_view what = error.what();
                 const bool has_name = what.find("element 5 of p0 is ") != what.npos;
                 test::require(has_name, "the parameters are not named");
                 return;
               }
               throw InternalError("codes stand for what they cannot");
             });
  }
}

}  // namespace
}  // namespace ds
