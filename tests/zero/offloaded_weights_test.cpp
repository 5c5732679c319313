// Slices of weights beside the device: they come back as they were left, whoever made them, in how
// many pieces, and through how few buffers.
#include "zero/state/offloaded_weights.h"

#include "kernels/elementwise/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/test_stream.h"

namespace ds {
namespace {

using Floats = std::vector<float>;
using testing::floats_of;
using testing::TestStream;

constexpr int64_t kNumel = 192;

// Small whole numbers, which bf16 holds.
Floats numbers(int64_t numel, float first) {
  Floats values(to_size(numel));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = first + static_cast<float>(i % 64);
  }
  return values;
}

struct Rank {
  TestStream device;
  HostMemory heap;
  ThreadPool pool{1};
  Stream host{{.memory = &heap, .pool = &pool}};
  MemoryAccount nvme;
  testing::TemporaryDirectory directory;
  BucketSlots slots{heap};
  OffloadedWeights weights;

  explicit Rank(int64_t host_numel, int buffers = 2)
      : weights({.host_numel = host_numel, .buffers = buffers, .buffer_numel = kNumel},
                {.host = &heap,
                 .nvme = &nvme,
                 .open_swap =
                     [this](int64_t bytes) {
                       return std::make_unique<Swapper>(
                           SwapperOptions{.directory = directory.path().string(),
                                          .owner = {.job = "test"},
                                          .bytes = bytes},
                           std::make_unique<AsyncIo>(IoOptions{.engine = EngineKind::kThreads}));
                     }},
                {device.stream, device.stream}, slots) {}

  void on_host(int slice, int64_t begin, const Floats& values) {
    const auto numel = narrow<int64_t>(values.size());
    const Tensor at = weights.place(slice, begin, numel, host);
    const Tensor from = Tensor::borrow(const_cast<float*>(values.data()), {numel}, DType::kF32);
    Tensor to = at;
    kernels::cast(host, from, to);
    weights.wrote(slice, numel, host);
  }
  void on_device(int slice, int64_t begin, const Floats& values) {
    weights.store(slice, begin,
                  testing::upload(values, {narrow<int64_t>(values.size())}, device.stream));
  }
  Floats fetched(int slice) {
    weights.fetch(slice);
    Tensor there = weights.take(slice);
    Floats values = floats_of(there);
    slots.give_back(there, device.stream);
    return values;
  }
};

Floats joined(Floats first, const Floats& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST_CASE("a slice that the host makes part by part is fetched whole", "[zero]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t host_numel : {int64_t{0}, INT64_MAX}) {
      for (const int buffers : {1, 3}) {
        CAPTURE(name_of(dtype), host_numel, buffers);
        Rank rank(host_numel, buffers);
        for (int slice = 0; slice < 3; ++slice) {
          rank.weights.add(kNumel, dtype, WeightMaker::kHost);
        }
        rank.weights.seal();
        for (const float round : {1.0F, 100.0F}) {
          for (int slice = 0; slice < 3; ++slice) {
            const float first = round + static_cast<float>(slice);
            rank.on_host(slice, 0, numbers(128, first));
            rank.on_host(slice, 128, numbers(kNumel - 128, first + 7));
          }
          rank.weights.end_stores();
          for (int slice = 0; slice < 3; ++slice) {
            const float first = round + static_cast<float>(slice);
            CHECK(rank.fetched(slice) == joined(numbers(128, first), numbers(64, first + 7)));
          }
        }
      }
    }
  }
}

TEST_CASE("of a slice that is made in two shares each stays as it was made last", "[zero]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t host_numel : {int64_t{0}, INT64_MAX}) {
      CAPTURE(name_of(dtype), host_numel);
      Rank rank(host_numel, 1);
      for (int slice = 0; slice < 2; ++slice) {
        rank.weights.add(kNumel, dtype, WeightMaker::kBoth);
      }
      rank.weights.seal();
      for (const float round : {1.0F, 100.0F}) {
        for (int slice = 0; slice < 2; ++slice) rank.on_host(slice, 0, numbers(64, round));
        for (int slice = 0; slice < 2; ++slice) {
          rank.on_device(slice, 64, numbers(kNumel - 64, round + 9));
        }
        rank.weights.end_stores();
        for (int slice = 0; slice < 2; ++slice) {
          CHECK(rank.fetched(slice) == joined(numbers(64, round), numbers(128, round + 9)));
        }
      }
      rank.on_host(0, 0, numbers(64, 33));  // one share alone
      rank.weights.end_stores();
      CHECK(rank.fetched(0) == joined(numbers(64, 33), numbers(128, 109)));
    }
  }
}

TEST_CASE("what a failed pass left of a slice is not taken for a part of the next one", "[zero]") {
  Rank rank(0, 2);
  rank.weights.add(kNumel, DType::kF32, WeightMaker::kHost);
  rank.weights.seal();
  rank.on_host(0, 0, numbers(128, 1));  // and no more
  rank.on_host(0, 0, numbers(128, 2));
  rank.on_host(0, 128, numbers(64, 3));
  rank.weights.end_stores();
  CHECK(rank.fetched(0) == joined(numbers(128, 2), numbers(64, 3)));
}

TEST_CASE("a slice is not made new while somebody has asked for the old one", "[zero]") {
  Rank rank(INT64_MAX);
  rank.weights.add(kNumel, DType::kF32, WeightMaker::kHost);
  rank.weights.seal();
  rank.on_host(0, 0, numbers(kNumel, 1));
  rank.weights.end_stores();
  rank.weights.fetch(0);
  CHECK_THROWS_WITH(rank.weights.place(0, 0, 64, rank.host), Catch::Contains("is fetched"));
  CHECK(rank.fetched(0) == numbers(kNumel, 1));
  CHECK_THROWS_AS(rank.weights.place(0, 128, 128, rank.host), InternalError);
}

TEST_CASE("a slice of the swap file that no buffer holds is refused by the key", "[zero]") {
  Rank rank(0);
  CHECK_THROWS_WITH(rank.weights.add(kNumel + 1, DType::kBF16),
                    Catch::Contains("offload_param.buffer_size: 192 elements"));
}

}  // namespace
}  // namespace ds
