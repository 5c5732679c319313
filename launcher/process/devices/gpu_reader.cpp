#include "launcher/process/devices/gpu_reader.h"

#include <array>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr size_t kLongestText = 128;  // NVML's longest buffer is of 96
constexpr int kMostEvents = 64;       // of one look: a GPU that says more says nothing new

// What a function answers through its last argument; nothing where it is missing, or refuses.
template <class Value, class Function, class... Arguments>
std::optional<int64_t> asked(Function function, Arguments... arguments) {
  Value value{};
  if (function == nullptr || function(arguments..., &value) != NVML_SUCCESS) return std::nullopt;
  return static_cast<int64_t>(value);
}

template <class Function, class... Arguments>
std::string text_of(Function function, Arguments... arguments) {
  std::array<char, kLongestText> text{};
  const bool said =
      function(arguments..., text.data(), static_cast<unsigned>(text.size())) == NVML_SUCCESS;
  return said ? text.data() : "";
}

std::string throttle_words(unsigned long long reasons) {
  if ((reasons & (kNvmlSoftwareThermal | kNvmlHardwareThermal)) != 0) return "it is too hot";
  if ((reasons & kNvmlPowerBrake) != 0) return "its power supply asks for it";
  return "";
}

}  // namespace

GpuReader::GpuReader(const std::string& file) : nvml_(open_nvml(file)) {
  if (const nvmlReturn_t result = nvml_.nvmlInit_v2(); result != NVML_SUCCESS) {
    throw Unsupported(
        fmt::format("NVML ({}) cannot be used: {}", nvml_.library.file(), description(result)));
  }
  unsigned int count = 0;
  nvml_.nvmlDeviceGetCount_v2(&count);
  devices_.resize(count);
  watch_for_xids();
}

GpuReader::~GpuReader() {
  if (events_ != nullptr) nvml_.nvmlEventSetFree(events_);
  nvml_.nvmlShutdown();
}

GpuReport GpuReader::read() {
  GpuReport out = sample();
  for (size_t i = 0; i < out.gpus.size(); ++i) {
    if (!out.gpus[i].problem.empty()) continue;
    add_health(devices_[i], out.gpus[i]);
    add_processes(devices_[i], out.gpus[i]);
    const std::vector<nvmlDevice_t> parts =
        add_parts(devices_[i], out.gpus[i]);  // anew: it is more
    for (size_t part = 0; part < parts.size(); ++part)
      add_processes(parts[part], out.gpus[i].parts[part]);
  }
  add_peers(devices_, out);
  return out;
}

GpuReport GpuReader::sample() {
  take_xids();
  GpuReport out;
  out.driver = text_of(nvml_.nvmlSystemGetDriverVersion);
  for (size_t i = 0; i < devices_.size(); ++i) {
    GpuState& state = out.gpus.emplace_back(identify(static_cast<unsigned>(i), devices_[i]));
    if (!state.problem.empty()) continue;
    state.figures = figures(devices_[i]);
    add_parts(devices_[i], state);
  }
  return out;
}

GpuState GpuReader::identify(unsigned int index, nvmlDevice_t& device) const {
  GpuState out;
  out.index = static_cast<int>(index);
  const nvmlReturn_t result = nvml_.nvmlDeviceGetHandleByIndex_v2(index, &device);
  if (result != NVML_SUCCESS) {
    device = nullptr;
    out.problem = description(result);
    return out;
  }
  out.name = text_of(nvml_.nvmlDeviceGetName, device);
  out.uuid = text_of(nvml_.nvmlDeviceGetUUID, device);
  nvmlMemory_t memory{};
  const nvmlReturn_t answered = nvml_.nvmlDeviceGetMemoryInfo(device, &memory);
  if (answered == NVML_ERROR_GPU_IS_LOST) out.problem = description(answered);
  return out;
}

std::vector<nvmlDevice_t> GpuReader::add_parts(nvmlDevice_t device, GpuState& state) const {
  std::vector<nvmlDevice_t> handles;
  state.parts.clear();
  if (nvml_.nvmlDeviceGetMigDeviceHandleByIndex == nullptr) return handles;
  const auto most = asked<unsigned int>(nvml_.nvmlDeviceGetMaxMigDeviceCount, device).value_or(0);
  std::vector<GpuState> parts;
  for (unsigned int index = 0; index < most; ++index) {
    nvmlDevice_t handle = nullptr;
    if (nvml_.nvmlDeviceGetMigDeviceHandleByIndex(device, index, &handle) != NVML_SUCCESS) continue;
    GpuState& part = parts.emplace_back(state);
    part.name = text_of(nvml_.nvmlDeviceGetName, handle);
    part.uuid = text_of(nvml_.nvmlDeviceGetUUID, handle);
    part.figures.utilization = part.figures.memory_total = part.figures.memory_used = std::nullopt;
    add_memory(handle, part.figures);
    part.processes.clear();
    part.process_memory.reset();
    handles.push_back(handle);
  }
  state.parts = std::move(parts);
  return handles;
}

void GpuReader::add_memory(nvmlDevice_t device, GpuFigures& figures) const {
  nvmlMemory_t memory{};
  if (nvml_.nvmlDeviceGetMemoryInfo(device, &memory) != NVML_SUCCESS) return;
  figures.memory_total = static_cast<int64_t>(memory.total);
  figures.memory_used = static_cast<int64_t>(memory.total - memory.free);
}

GpuFigures GpuReader::figures(nvmlDevice_t device) const {
  GpuFigures out;
  add_memory(device, out);
  nvmlUtilization_t utilization{};
  if (nvml_.nvmlDeviceGetUtilizationRates != nullptr &&
      nvml_.nvmlDeviceGetUtilizationRates(device, &utilization) == NVML_SUCCESS) {
    out.utilization = utilization.gpu;
  }
  out.temperature =
      asked<unsigned int>(nvml_.nvmlDeviceGetTemperature, device, NVML_TEMPERATURE_GPU);
  out.sm_clock = asked<unsigned int>(nvml_.nvmlDeviceGetClockInfo, device, NVML_CLOCK_SM);
  out.power = asked<unsigned int>(nvml_.nvmlDeviceGetPowerUsage, device);
  if (const auto xid = xids_.find(device); xid != xids_.end()) out.last_xid = xid->second;
  return out;
}

void GpuReader::add_health(nvmlDevice_t device, GpuState& state) const {
  state.slowdown_at = asked<unsigned int>(nvml_.nvmlDeviceGetTemperatureThreshold, device,
                                          NVML_TEMPERATURE_THRESHOLD_SLOWDOWN);
  state.ecc_uncorrected =
      asked<unsigned long long>(nvml_.nvmlDeviceGetTotalEccErrors, device,
                                NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC);
  const std::optional<int64_t> reasons =
      asked<unsigned long long>(nvml_.nvmlDeviceGetCurrentClocksThrottleReasons, device);
  if (reasons) state.throttled = throttle_words(static_cast<unsigned long long>(*reasons));
}

void GpuReader::add_processes(nvmlDevice_t device, GpuState& state) const {
  if (nvml_.nvmlDeviceGetComputeRunningProcesses_v3 == nullptr) return;
  unsigned int count = 0;
  std::vector<nvmlProcessInfo_t> found;
  nvmlReturn_t result = nvml_.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, nullptr);
  if (result == NVML_ERROR_INSUFFICIENT_SIZE) {
    found.resize(count);
    result = nvml_.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, found.data());
    found.resize(std::min<size_t>(count, found.size()));
  }
  if (result != NVML_SUCCESS) return;
  state.process_memory = 0;
  for (const nvmlProcessInfo_t& process : found) {
    state.processes.push_back(process.pid);
    if (process.usedGpuMemory != ~0ULL)
      *state.process_memory += static_cast<int64_t>(process.usedGpuMemory);
  }
}

void GpuReader::add_peers(const std::vector<nvmlDevice_t>& devices, GpuReport& report) const {
  if (nvml_.nvmlDeviceGetP2PStatus == nullptr) return;
  for (size_t one = 0; one < devices.size(); ++one) {
    for (size_t other = 0; other < devices.size(); ++other) {
      nvmlGpuP2PStatus_t status = NVML_P2P_STATUS_OK;
      if (one == other || devices[one] == nullptr || devices[other] == nullptr) continue;
      const nvmlReturn_t result = nvml_.nvmlDeviceGetP2PStatus(devices[one], devices[other],
                                                               NVML_P2P_CAPS_INDEX_READ, &status);
      if (result == NVML_SUCCESS && status != NVML_P2P_STATUS_OK)
        report.gpus[one].unreachable.push_back(static_cast<int>(other));
    }
  }
}

// Not every GPU has them, and containers may not; what happened before nobody tells.
void GpuReader::watch_for_xids() {
  if (nvml_.nvmlEventSetCreate == nullptr || nvml_.nvmlDeviceRegisterEvents == nullptr ||
      nvml_.nvmlEventSetWait_v2 == nullptr || nvml_.nvmlEventSetFree == nullptr ||
      nvml_.nvmlEventSetCreate(&events_) != NVML_SUCCESS) {
    events_ = nullptr;
    return;
  }
  for (size_t i = 0; i < devices_.size(); ++i) {
    const unsigned int index = static_cast<unsigned>(i);
    if (nvml_.nvmlDeviceGetHandleByIndex_v2(index, &devices_[i]) == NVML_SUCCESS)
      nvml_.nvmlDeviceRegisterEvents(devices_[i], kNvmlXidEvent, events_);
  }
}

void GpuReader::take_xids() {
  if (events_ == nullptr) return;
  for (int i = 0; i < kMostEvents; ++i) {
    nvmlEventData_t event{};
    constexpr unsigned int kNoWaiting = 0;
    if (nvml_.nvmlEventSetWait_v2(events_, &event, kNoWaiting) != NVML_SUCCESS) return;
    if (event.eventType == kNvmlXidEvent)
      xids_[event.device] = static_cast<int64_t>(event.eventData);
  }
}

std::string GpuReader::description(nvmlReturn_t result) const {
  const char* const text = nvml_.nvmlErrorString(result);
  return text != nullptr ? text : fmt::format("error {}", static_cast<int>(result));
}

GpuReport gpus_of_this_machine() {
  try {
    return GpuReader().read();
  } catch (const Unsupported& error) {
    return {.problem = error.what()};
  }
}

}  // namespace ds
