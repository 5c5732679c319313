#include "launcher/process/devices/gpu_messages.h"

namespace ds {
namespace {

agent::Gpu to_message(const GpuState& gpu) {
  agent::Gpu out;
  out.set_index(gpu.index);
  out.set_uuid(gpu.uuid);
  out.set_name(gpu.name);
  out.set_problem(gpu.problem);
  const GpuFigures& figures = gpu.figures;
  if (figures.memory_total) out.set_memory_total(*figures.memory_total);
  if (figures.memory_used) out.set_memory_used(*figures.memory_used);
  if (figures.utilization) out.set_utilization(*figures.utilization);
  if (figures.temperature) out.set_temperature(*figures.temperature);
  if (figures.sm_clock) out.set_sm_clock(*figures.sm_clock);
  if (figures.power) out.set_power(*figures.power);
  if (figures.last_xid) out.set_last_xid(*figures.last_xid);
  if (gpu.slowdown_at) out.set_slowdown_at(*gpu.slowdown_at);
  if (gpu.ecc_uncorrected) out.set_ecc_uncorrected(*gpu.ecc_uncorrected);
  if (gpu.process_memory) out.set_process_memory(*gpu.process_memory);
  out.set_throttled(gpu.throttled);
  out.mutable_processes()->Add(gpu.processes.begin(), gpu.processes.end());
  out.mutable_unreachable()->Add(gpu.unreachable.begin(), gpu.unreachable.end());
  for (const GpuState& part : gpu.parts) *out.add_parts() = to_message(part);
  return out;
}

GpuState from_message(const agent::Gpu& in) {
  GpuState out;
  out.index = in.index();
  out.uuid = in.uuid();
  out.name = in.name();
  out.problem = in.problem();
  GpuFigures& figures = out.figures;
  if (in.has_memory_total()) figures.memory_total = in.memory_total();
  if (in.has_memory_used()) figures.memory_used = in.memory_used();
  if (in.has_utilization()) figures.utilization = in.utilization();
  if (in.has_temperature()) figures.temperature = in.temperature();
  if (in.has_sm_clock()) figures.sm_clock = in.sm_clock();
  if (in.has_power()) figures.power = in.power();
  if (in.has_last_xid()) figures.last_xid = in.last_xid();
  if (in.has_slowdown_at()) out.slowdown_at = in.slowdown_at();
  if (in.has_ecc_uncorrected()) out.ecc_uncorrected = in.ecc_uncorrected();
  if (in.has_process_memory()) out.process_memory = in.process_memory();
  out.throttled = in.throttled();
  out.processes.assign(in.processes().begin(), in.processes().end());
  out.unreachable.assign(in.unreachable().begin(), in.unreachable().end());
  for (const agent::Gpu& part : in.parts()) out.parts.push_back(from_message(part));
  return out;
}

}  // namespace

agent::GpuReport to_message(const GpuReport& report) {
  agent::GpuReport out;
  out.set_driver(report.driver);
  out.set_problem(report.problem);
  for (const GpuState& gpu : report.gpus) *out.add_gpus() = to_message(gpu);
  return out;
}

GpuReport from_message(const agent::GpuReport& message) {
  GpuReport out{.driver = message.driver(), .problem = message.problem()};
  for (const agent::Gpu& gpu : message.gpus()) out.gpus.push_back(from_message(gpu));
  return out;
}

}  // namespace ds
