// Whether cuDNN has engines for our graphs of attention, for GPUs that are described and need not
// be there. In builds with attention by cuDNN, on machines with the library and with libcuda.so.1,
// for which the CUDA Toolkit's stub suffices: nothing runs here.
#include <string>
#include <vector>

#include "core/device/stream.h"
#include "core/libraries/gpu_libraries.h"
#include "core/status/error.h"
#include "kernels/attention/cuda/attention_cudnn.h"
#include "tests/support/catch.h"

namespace ds::kernels {
namespace {

using detail::DescribedDevice;

DescribedDevice device_of(int capability, int processors, int shared_bytes) {
  return {.capability = capability,
          .json = fmt::format(
              R"({{"deviceName": "sm_{0}", "deviceVer": {0}0, "multiProcessorCount": {1},
                   "maxSharedMemoryPerBlockOptin": {2}, "maxGridSize": [2147483647, 65535, 65535],
                   "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
                   "maxRegistersPerSM": 65536, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
                   "reservedSharedMemoryPerBlock": 1024, "maxCtasPerSM": 32,
                   "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "smClockRateKHz": 1980000,
                   "memClockRateKHz": 3201000, "l2CacheSize": 52428800, "supportCoopLaunch": 1,
                   "isTccDriver": 0, "pciDeviceId": 0, "cudaDeviceId": 0, "driverVer": 13000,
                   "totalGlobalMem": 80000000000}})",
              capability, processors, shared_bytes)};
}

const DescribedDevice kA100 = device_of(80, 108, 166912);
const DescribedDevice kH100 = device_of(90, 132, 232448);
const DescribedDevice kB200 = device_of(100, 148, 232448);

// Whether the machine lacks what cuDNN needs to say anything, and says so.
bool is_missing() {
  try {
    require_table(GpuLibrary::kCudnn);
    const Library driver({.name = "CUDA driver",
                          .purpose = "",
                          .sonames = {"libcuda.so.1"},
                          .source = "NVIDIA's driver, or the CUDA Toolkit's stub of that name"});
    return false;
  } catch (const Unsupported& missing) {
    WARN(missing.what());
    return true;
  }
}

std::string refusal(AttentionPass pass, const AttentionShape& shape, const DescribedDevice& device,
                    DType dtype = DType::kBF16, const AttentionRules& rules = {}) {
  return detail::cudnn_refusal(pass, shape, dtype, device, rules);
}

}  // namespace

TEST_CASE("cuDNN has engines for packed causal attention on A100, H100 and B200", "[kernels]") {
  if (is_missing()) return;
  const std::vector<AttentionShape> shapes{{2, 1024, 12, 12, 64},  // GPT-2
                                           {1, 4096, 32, 8, 128},  // Llama 3
                                           {3, 257, 4, 1, 80},
                                           {2, 2, 2, 2, 8}};
  for (const DescribedDevice& device : {kA100, kH100, kB200}) {
    for (const AttentionShape& shape : shapes) {
      for (const DType dtype : {DType::kBF16, DType::kF16}) {
        CAPTURE(device.capability, shape.length, shape.heads, shape.head_dim, name_of(dtype));
        CHECK(refusal(AttentionPass::kForward, shape, device, dtype).empty());
        CHECK(refusal(AttentionPass::kBackward, shape, device, dtype).empty());
        CHECK(refusal(AttentionPass::kBackward, shape, device, dtype, {.deterministic = false})
                  .empty());
      }
    }
  }
}

TEST_CASE("attention is planned with our own kernels for a GPU that is not here", "[kernels]") {
  MetaMemory memory;
  Stream stream({.device = Device::meta(), .memory = &memory, .stands_for = Device::cuda(99)});
  const AttentionKernels planned =
      detail::attention_kernels_of(stream, {2, 1024, 12, 12, 64}, DType::kBF16, 0, {});
  CHECK(planned.backward.kind == AttentionKind::kFlash);
  CHECK_THAT(planned.backward.why, Catch::Contains("there is no cuda:99 here"));
  CHECK(planned.scratch_backward == int64_t{2} * 12 * 1024 * 4);
}

TEST_CASE("what cuDNN has no attention for it refuses with a reason", "[kernels]") {
  if (is_missing()) return;
  CHECK_THAT(refusal(AttentionPass::kBackward, {1, 512, 2, 2, 256}, kA100),
             Catch::Contains("hidden_dim"));
  CHECK_THAT(refusal(AttentionPass::kBackward, {1, 1, 2, 2, 64}, kH100),
             Catch::Contains("s_q = s_kv = 1"));
  CHECK(!refusal(AttentionPass::kForward, {1, 512, 2, 2, 12}, kH100).empty());
  CHECK(!refusal(AttentionPass::kForward, {1, 512, 2, 2, 64}, {.capability = 90, .json = "{}"})
             .empty());
}

}  // namespace ds::kernels
