#include "launcher/report/preflight_gpus.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/status/error.h"
#include "launcher/decide/devices/device_choice.h"
#include "launcher/process/devices/gpu_messages.h"
#include "launcher/report/gpu_text.h"
#include "launcher/report/progress.h"

namespace ds {
namespace {

constexpr const char* kLeaveOut =
    "leave its slot out with --exclude HOST:SLOT until that is mended";

HostGpus gpus_of(const PreflightNeeds& needs, const SurveyedHost& host) {
  HostGpus out{.host = host.host.name,
               .all = {.names = {host.facts->gpu_names().begin(), host.facts->gpu_names().end()},
                       .why_none = host.facts->why_no_gpu()}};
  if (const auto given = needs.slot_gpus.find(host.host.name); given != needs.slot_gpus.end())
    out.of_slots = given->second;
  return out;
}

class GpuJudge {
 public:
  GpuJudge(const PreflightNeeds& needs, const SurveyedHost& host, std::vector<Finding>& findings)
      : needs_(needs), host_(host), findings_(findings) {}

  void judge() {
    std::set<std::string> wanted;
    std::vector<RankPlacement> ranks;
    for (const int64_t slot : host_.host.slots)
      ranks.push_back({.host = host_.host.name, .slot = slot});
    try {
      const RankDevices placed = place_on_gpus(ranks, {gpus_of(needs_, host_)}, needs_.gpu_sharing);
      wanted.insert(placed.gpus.begin(), placed.gpus.end());
    } catch (const Error& error) {
      add("devices", FindingLevel::kBad, error.what(),
          "lower its slots in the hostfile, or leave out what is not there with --exclude");
      return;
    }
    const GpuReport report = from_message(host_.facts->gpu_report());
    if (!report.problem.empty()) {
      add("gpu", FindingLevel::kWarning,
          fmt::format("nothing is known about its GPUs: {}", report.problem),
          "let the container have the driver's libnvidia-ml.so.1");
    }
    for (const std::string& name : wanted) {
      if (const GpuState* const gpu = find_gpu(report, name)) one(*gpu, report, wanted);
    }
  }

 private:
  void add(const char* check, FindingLevel level, std::string what, std::string fix) {
    findings_.push_back({host_.host.name, check, level, std::move(what), std::move(fix)});
  }

  void one(const GpuState& gpu, const GpuReport& report, const std::set<std::string>& wanted) {
    if (!gpu.problem.empty()) {
      add("gpu", FindingLevel::kBad,
          fmt::format("{} does not answer: {}", gpu_name(gpu), gpu.problem),
          fmt::format("reset it or restart the machine; {}", kLeaveOut));
      return;
    }
    if (gpu.ecc_uncorrected.value_or(0) > 0) {
      add("gpu memory", FindingLevel::kBad,
          fmt::format("{} has counted {} of its memory that ECC could not correct", gpu_name(gpu),
                      format_count(*gpu.ecc_uncorrected, "error")),
          fmt::format("reset it (nvidia-smi --gpu-reset), which takes bad rows out of use; {}",
                      kLeaveOut));
    }
    heat(gpu);
    memory(gpu);
    for (const int other : gpu.unreachable) {
      const bool both = other > gpu.index && is_wanted(report, other, wanted);
      if (!both) continue;
      add("gpu links", FindingLevel::kWarning,
          fmt::format("{} and GPU {} cannot read each other's memory; what they send each other "
                      "goes through the host",
                      gpu_name(gpu), other),
          "look at `nvidia-smi topo -m`; a container or the IOMMU (ACS) may keep them apart");
    }
  }

  void heat(const GpuState& gpu) {
    const std::optional<int64_t> degrees = gpu.figures.temperature;
    if (degrees && gpu.slowdown_at && *degrees >= *gpu.slowdown_at) {
      add("gpu heat", FindingLevel::kBad,
          fmt::format("{} has {} degrees C and slows down from {} on", gpu_name(gpu), *degrees,
                      *gpu.slowdown_at),
          fmt::format("see to its cooling; {}", kLeaveOut));
    } else if (!gpu.throttled.empty()) {
      add("gpu heat", FindingLevel::kWarning,
          fmt::format("{} holds its clocks back: {}", gpu_name(gpu), gpu.throttled),
          "see to its cooling and power; all ranks wait for the slowest");
    }
  }

  void memory(const GpuState& gpu) {
    const GpuFigures& figures = gpu.figures;
    const std::string others =
        gpu.processes.empty()
            ? ""
            : fmt::format("; processes {} have {} there", fmt::join(gpu.processes, ", "),
                          format_bytes(gpu.process_memory.value_or(0)));
    const std::optional<int64_t> left =
        figures.memory_total && figures.memory_used
            ? std::optional(*figures.memory_total - *figures.memory_used)
            : std::nullopt;
    if (left && needs_.gpu_memory_bytes > 0 && *left < needs_.gpu_memory_bytes) {
      add("gpu memory", FindingLevel::kBad,
          fmt::format("{} has {} free of {}, its rank needs {}{}", gpu_name(gpu),
                      format_bytes(*left), format_bytes(*figures.memory_total),
                      format_bytes(needs_.gpu_memory_bytes), others),
          "end what else runs there; a higher ZeRO stage, offload, a smaller micro batch; "
          "`dslaunch plan` shows what takes the memory");
    } else if (!others.empty()) {
      add("gpu memory", FindingLevel::kWarning,
          fmt::format("{} is used already{}", gpu_name(gpu), others),
          "end them if they are left over: they take memory and time");
    }
  }

  static bool is_wanted(const GpuReport& report, int index, const std::set<std::string>& wanted) {
    return std::ranges::any_of(wanted, [&](const std::string& name) {
      const GpuState* const gpu = find_gpu(report, name);
      return gpu != nullptr && gpu->index == index;
    });
  }

  const PreflightNeeds& needs_;
  const SurveyedHost& host_;
  std::vector<Finding>& findings_;
};

}  // namespace

void judge_gpus(const PreflightNeeds& needs, const SurveyedHost& host,
                std::vector<Finding>& findings) {
  GpuJudge(needs, host, findings).judge();
}

void judge_nccl(const std::vector<SurveyedHost>& hosts, std::vector<Finding>& findings) {
  const SurveyedHost* first = nullptr;
  for (const SurveyedHost& host : hosts) {
    if (!host.facts) continue;
    if (host.facts->nccl().empty()) {
      findings.push_back({host.host.name, "nccl", FindingLevel::kWarning,
                          "NCCL (libnccl.so.2) is not found there",
                          "install libnccl2, or name its folder in LD_LIBRARY_PATH"});
      continue;
    }
    if (first == nullptr) first = &host;
    if (host.facts->nccl() != first->facts->nccl()) {
      findings.push_back(
          {host.host.name, "nccl", FindingLevel::kBad,
           fmt::format("it has NCCL {}, {} has {}", host.facts->nccl(),
                       first->host.name.empty() ? "the launcher's machine" : first->host.name,
                       first->facts->nccl()),
           "install the same on all hosts"});
    }
  }
}

}  // namespace ds
