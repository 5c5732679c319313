// libnvidia-ml.so.1 for machines without GPUs: answers from the text file that DS_FAKE_NVML names,
// read anew for every question, so that a test can let GPUs fall ill. DS_FAKE_OLD leaves out what
// old drivers lack. Lines, of which those after `gpu` are that GPU's:
//
//   driver VERSION               init NVMLRETURN          gpu UUID NAME...
//   memory TOTAL FREE            utilization PERCENT      temperature CELSIUS
//   slowdown CELSIUS             clock MHZ                power MILLIWATTS
//   ecc COUNT                    throttle BITS            process PID BYTES
//   no_peer INDEX                xid NUMBER               lost
//   part UUID TOTAL FREE         (of MIG; processes after it are there)
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "core/libraries/nvml_abi.h"

namespace {

struct FakeGpu {
  std::string uuid, name;
  std::map<std::string, unsigned long long> numbers;
  nvmlMemory_t memory{};
  std::vector<nvmlProcessInfo_t> processes;
  std::vector<unsigned int> no_peers;
  std::vector<unsigned long long> xids;
  bool lost = false;
  std::vector<FakeGpu> parts;
};

struct FakeMachine {
  std::string driver;
  int init = 0;
  std::vector<FakeGpu> gpus;
};

void take_line(const std::string& key, std::istringstream& rest, FakeGpu& gpu) {
  unsigned long long value = 0;
  if (key == "lost") {
    gpu.lost = true;
  } else if (key == "part") {
    FakeGpu& part = gpu.parts.emplace_back();
    part.name = gpu.name + " MIG";
    rest >> part.uuid >> part.memory.total >> part.memory.free;
    part.memory.used = part.memory.total - part.memory.free;
  } else if (key == "memory") {
    rest >> gpu.memory.total >> gpu.memory.free;
    gpu.memory.used = gpu.memory.total - gpu.memory.free;
  } else if (key == "process") {
    nvmlProcessInfo_t process{};
    rest >> process.pid >> process.usedGpuMemory;
    (gpu.parts.empty() ? gpu : gpu.parts.back()).processes.push_back(process);
  } else if (key == "no_peer") {
    rest >> value;
    gpu.no_peers.push_back(static_cast<unsigned int>(value));
  } else if (key == "xid") {
    rest >> value;
    gpu.xids.push_back(value);
  } else {
    rest >> gpu.numbers[key];
  }
}

FakeMachine read_machine() {
  FakeMachine out;
  const char* const path = std::getenv("DS_FAKE_NVML");
  std::ifstream in(path != nullptr ? path : "");
  for (std::string line; std::getline(in, line);) {
    std::istringstream rest(line);
    std::string key;
    if (!(rest >> key)) continue;
    if (key == "driver") {
      rest >> out.driver;
    } else if (key == "init") {
      rest >> out.init;
    } else if (key == "gpu") {
      FakeGpu& gpu = out.gpus.emplace_back();
      rest >> gpu.uuid >> std::ws;
      std::getline(rest, gpu.name);
    } else if (!out.gpus.empty()) {
      take_line(key, rest, out.gpus.back());
    }
  }
  return out;
}

// Handles are numbers: of a GPU, and above that of a part of it, each from 1.
constexpr size_t kGpus = 1000;
size_t index_of(nvmlDevice_t device) { return reinterpret_cast<size_t>(device) % kGpus - 1; }
size_t part_of(nvmlDevice_t device) { return reinterpret_cast<size_t>(device) / kGpus; }

nvmlDevice_t device_at(size_t index, size_t part = 0) {
  return reinterpret_cast<nvmlDevice_t>(part * kGpus + index + 1);
}

// Calls `answer` with the GPU, if it is there.
template <class Answer>
nvmlReturn_t ask(nvmlDevice_t device, const Answer& answer) {
  const FakeMachine machine = read_machine();
  const size_t index = index_of(device);
  if (index >= machine.gpus.size() || machine.gpus[index].lost) return NVML_ERROR_GPU_IS_LOST;
  const FakeGpu& gpu = machine.gpus[index];
  const size_t part = part_of(device);
  return answer(part == 0 ? gpu : gpu.parts.at(part - 1));
}

template <class Value>
nvmlReturn_t number(nvmlDevice_t device, const char* key, Value* value) {
  return ask(device, [&](const FakeGpu& gpu) {
    const auto found = gpu.numbers.find(key);
    if (found == gpu.numbers.end()) return NVML_ERROR_NOT_SUPPORTED;
    *value = static_cast<Value>(found->second);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t say(const std::string& text, char* out, unsigned int length) {
  if (text.size() >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

}  // namespace

// What was told of each GPU's Xids.
struct nvmlEventSet_st {
  std::map<size_t, size_t> told;
};

extern "C" {

nvmlReturn_t nvmlInit_v2() { return static_cast<nvmlReturn_t>(read_machine().init); }
nvmlReturn_t nvmlShutdown() { return NVML_SUCCESS; }
const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_GPU_IS_LOST:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}
nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  return say(read_machine().driver, version, length);
}
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = static_cast<unsigned int>(read_machine().gpus.size());
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  *device = device_at(index);
  return ask(*device, [](const FakeGpu&) { return NVML_SUCCESS; });
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  return ask(device, [&](const FakeGpu& gpu) { return say(gpu.name, name, length); });
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  return ask(device, [&](const FakeGpu& gpu) { return say(gpu.uuid, uuid, length); });
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  return ask(device, [&](const FakeGpu& gpu) {
    *memory = gpu.memory;
    return NVML_SUCCESS;
  });
}

#ifndef DS_FAKE_OLD
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  utilization->memory = 0;
  return number(device, "utilization", &utilization->gpu);
}
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t,
                                      unsigned int* celsius) {
  return number(device, "temperature", celsius);
}
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t,
                                               unsigned int* celsius) {
  return number(device, "slowdown", celsius);
}
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t, unsigned int* mhz) {
  return number(device, "clock", mhz);
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                       unsigned long long* reasons) {
  return number(device, "throttle", reasons);
}
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* milliwatts) {
  return number(device, "power", milliwatts);
}
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t,
                                         nvmlEccCounterType_t, unsigned long long* count) {
  return number(device, "ecc", count);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_t* processes) {
  return ask(device, [&](const FakeGpu& gpu) {
    const bool fits = gpu.processes.size() <= *count;
    *count = static_cast<unsigned int>(gpu.processes.size());
    if (!fits) return NVML_ERROR_INSUFFICIENT_SIZE;
    if (processes != nullptr) std::ranges::copy(gpu.processes, processes);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t,
                                    nvmlGpuP2PStatus_t* status) {
  return ask(one, [&](const FakeGpu& gpu) {
    const auto away = static_cast<unsigned int>(index_of(other));
    const bool reachable = std::ranges::find(gpu.no_peers, away) == gpu.no_peers.end();
    *status = static_cast<nvmlGpuP2PStatus_t>(reachable ? 0 : 1);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count) {
  return ask(device, [&](const FakeGpu&) {
    *count = 7;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t* part) {
  return ask(device, [&](const FakeGpu& gpu) {
    if (index >= gpu.parts.size()) return NVML_ERROR_NOT_FOUND;
    *part = device_at(index_of(device), index + 1);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  *set = new nvmlEventSet_st;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      nvmlEventSet_t set) {
  return ask(device, [&](const FakeGpu& gpu) {
    if (types == ds::kNvmlXidEvent) set->told[index_of(device)] = gpu.xids.size();
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data, unsigned int) {
  const FakeMachine machine = read_machine();
  for (auto& [index, told] : set->told) {
    if (index >= machine.gpus.size() || told >= machine.gpus[index].xids.size()) continue;
    *data = {.device = device_at(index),
             .eventType = ds::kNvmlXidEvent,
             .eventData = machine.gpus[index].xids[told++],
             .gpuInstanceId = 0,
             .computeInstanceId = 0};
    return NVML_SUCCESS;
  }
  return NVML_ERROR_TIMEOUT;
}
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  delete set;
  return NVML_SUCCESS;
}
#endif

}  // extern "C"
