// What NVML's functions take and return. The CUDA Toolkit brings its header, nvml.h, and machines
// with GPUs alone do not, so the few types that are needed stand here, as NVIDIA's "NVML API
// Reference Guide" lays them out. Not to be included beside nvml.h, whose names these are.
#pragma once

extern "C" {

struct nvmlDevice_st;
using nvmlDevice_t = nvmlDevice_st*;
struct nvmlEventSet_st;
using nvmlEventSet_t = nvmlEventSet_st*;

enum nvmlReturn_t : int {
  NVML_SUCCESS = 0,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_TIMEOUT = 10,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_UNKNOWN = 999,
};

enum nvmlTemperatureSensors_t : int { NVML_TEMPERATURE_GPU = 0 };
enum nvmlTemperatureThresholds_t : int { NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1 };
enum nvmlClockType_t : int { NVML_CLOCK_SM = 1 };
enum nvmlMemoryErrorType_t : int { NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1 };
enum nvmlEccCounterType_t : int { NVML_VOLATILE_ECC = 0 };  // since the driver was loaded
enum nvmlGpuP2PCapsIndex_t : int { NVML_P2P_CAPS_INDEX_READ = 0 };
enum nvmlGpuP2PStatus_t : int { NVML_P2P_STATUS_OK = 0 };

struct nvmlMemory_t {  // bytes
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct nvmlUtilization_t {  // percent of the time since the last sample
  unsigned int gpu;
  unsigned int memory;
};

struct nvmlProcessInfo_t {
  unsigned int pid;
  unsigned long long usedGpuMemory;  // bytes; all ones: not known
  unsigned int gpuInstanceId;
  unsigned int computeInstanceId;
};

struct nvmlEventData_t {
  nvmlDevice_t device;
  unsigned long long eventType;
  unsigned long long eventData;  // of a critical Xid: its number
  unsigned int gpuInstanceId;
  unsigned int computeInstanceId;
};

nvmlReturn_t nvmlInit_v2();
nvmlReturn_t nvmlShutdown();
const char* nvmlErrorString(nvmlReturn_t result);
nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory);
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization);
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                      unsigned int* celsius);
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device,
                                               nvmlTemperatureThresholds_t threshold,
                                               unsigned int* celsius);
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int* mhz);
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                       unsigned long long* reasons);
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* milliwatts);
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                         nvmlEccCounterType_t counter, unsigned long long* count);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_t* processes);
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other,
                                    nvmlGpuP2PCapsIndex_t index, nvmlGpuP2PStatus_t* status);
// These are for a GPU in MIG mode. The parts that exist have handles of their own, for names,
// memory and processes; there may be fewer than at most.
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count);
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t* part);
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set);
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      nvmlEventSet_t set);
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data,
                                 unsigned int timeout_ms);
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set);

}  // extern "C"

namespace ds {

inline constexpr unsigned long long kNvmlXidEvent = 0x8;
// These reasons for lower clocks matter: it is too hot, or power runs short, as hardware and driver
// see it. Idling, limits that a user set and the like are everyday life.
inline constexpr unsigned long long kNvmlSoftwareThermal = 0x20;
inline constexpr unsigned long long kNvmlHardwareThermal = 0x40;
inline constexpr unsigned long long kNvmlPowerBrake = 0x80;

}  // namespace ds
