// First weights on a device: their bits are the CPU's, whether they are drawn or read.
#include "core/device/host_copy.h"
#include "model/hf/weights.h"
#include "model/pass/initializer.h"
#include "model/stores/plain_store.h"
#include "tests/suites/rank_device.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/files/memory_file_system.h"

namespace ds::testing {
namespace {

constexpr size_t kPartBytes = 1000;

const std::vector<Initializer> kInitializers = {{Initializer::Kind::kNormal, 0.02F},
                                                {Initializer::Kind::kOnes, 0},
                                                {Initializer::Kind::kZeros, 0}};

std::vector<std::byte> bytes_on_host(const Tensor& tensor) {
  const auto* const begin = static_cast<const std::byte*>(tensor.raw());
  return {begin, begin + tensor.bytes()};
}

TEST_CASE("weights that are drawn for a device have the bits of the CPU's", "[model][device]") {
  if (has_no_device()) return;
  CpuStream cpu(2);
  RankDevice device;
  HostCopy through(device.stream, kPartBytes);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const Initializer& init : kInitializers) {
      ParamSpec spec{.name = "w", .shape = {70, 39}, .dtype = dtype, .init = init};
      spec.global = Shape{70, 130};  // of which the rank has every third column
      spec.cut.axes = {{{0, 70}}, {{10, 30}, {60, 79}}};
      for (const auto& [begin, numel] :
           std::vector<std::pair<int64_t, int64_t>>{{0, 2730}, {1, 999}, {2729, 1}, {5, 0}}) {
        CAPTURE(name_of(dtype), begin, numel);
        Tensor here = Tensor::empty({numel}, dtype, cpu.stream);
        initialize(spec, 5, begin, here, &cpu.pool);
        const Tensor there = Tensor::empty({numel}, dtype, device.stream);
        const int64_t from = begin;
        through.up(there, [&](int64_t first, Tensor& part) {
          initialize(spec, 5, from + first, part, &cpu.pool);
        });
        CHECK(device.down<std::byte>(there) == bytes_on_host(here));
      }
    }
  }
}

TEST_CASE("a plain store on a device begins with the bits of the CPU's", "[model][device]") {
  if (has_no_device()) return;
  CpuStream cpu;
  RankDevice device;
  PlainStore here(cpu.stream, 7), there(device.stream, 7);
  for (PlainStore* const store : {&here, &there}) {
    for (const Initializer& init : kInitializers) {
      store->add({.name = fmt::format("w{}", store->count()),
                  .shape = {33, 65},
                  .dtype = DType::kBF16,
                  .init = init});
    }
    store->seal();
  }
  for (ParamId id = 0; id < here.count(); ++id) {
    CHECK(device.down<std::byte>(there.weight(id)) == bytes_on_host(here.weight(id)));
  }
}

TEST_CASE("weights of a folder that are read to a device have the bits of the CPU's",
          "[model][device]") {
  if (has_no_device()) return;
  constexpr int64_t kNumel = 7001;
  std::vector<BF16> stored(to_size(kNumel));
  for (int64_t i = 0; i < kNumel; ++i) nth(stored, i) = BF16(static_cast<float>(i - 3000) * 0.37F);
  MemoryFileSystem fs;
  const std::vector<SafetensorsTensor> tensors{
      {"model.w", DType::kBF16, Shape{kNumel}, std::as_bytes(std::span(stored))}};
  write_safetensors(fs, "/model.safetensors", tensors);
  const std::vector<ParamSpec> specs{{.name = "model.w", .shape = {kNumel}}};
  const HfWeights weights(fs, "/", specs);
  CpuStream cpu;
  RankDevice device;
  HostCopy through(device.stream, kPartBytes);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    Tensor here = Tensor::empty({kNumel - 2}, dtype, cpu.stream);
    weights.read(0, 1, here);
    const Tensor there = Tensor::empty({kNumel - 2}, dtype, device.stream);
    through.up(there, [&](int64_t first, Tensor& part) { weights.read(0, 1 + first, part); });
    CHECK(device.down<std::byte>(there) == bytes_on_host(here));
  }
}

}  // namespace
}  // namespace ds::testing
