// What is known about one GPU at one moment, as a value. What a GPU, its driver or our rights do
// not tell has no value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ds {

// What changes all the time.
struct GpuFigures {
  std::optional<int64_t> memory_total{};  // bytes
  std::optional<int64_t> memory_used{};
  std::optional<int64_t> utilization{};  // percent
  std::optional<int64_t> temperature{};  // of the chip, degrees Celsius
  std::optional<int64_t> sm_clock{};     // MHz
  std::optional<int64_t> power{};        // milliwatts
  std::optional<int64_t> last_xid{};     // the newest critical one since somebody watches
};

struct GpuState {
  int index = 0;
  std::string uuid{};
  std::string name{};     // "NVIDIA H200"
  std::string problem{};  // why it does not answer; nothing else is known then
  GpuFigures figures{};
  std::optional<int64_t> slowdown_at{};      // degrees Celsius
  std::optional<int64_t> ecc_uncorrected{};  // since the driver was loaded
  std::string throttled{};                   // why its clocks are held back; empty: they are not
  std::optional<int64_t> process_memory{};   // bytes that processes have there now
  std::vector<int64_t> processes{};          // which
  std::vector<int> unreachable{};            // GPUs whose memory it cannot read directly
  // These are the parts of a GPU in MIG mode, each with a name and memory of its own; all else is
  // the GPU's. The utilization of a part is not known.
  std::vector<GpuState> parts{};
};

// All of a machine.
struct GpuReport {
  std::string driver{};   // "580.82.07"; empty: not known
  std::string problem{};  // why nothing is known about its GPUs
  std::vector<GpuState> gpus{};
};

// "3", "GPU-1a.." or "MIG-2b..", as CUDA_VISIBLE_DEVICES names it; null: none of these.
const GpuState* find_gpu(const GpuReport& report, const std::string& name);

}  // namespace ds
