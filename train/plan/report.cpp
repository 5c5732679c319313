#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include "core/index.h"
#include "core/number_text.h"
#include "train/dry_run.h"

namespace ds {
namespace {

using Writer = rapidjson::PrettyWriter<rapidjson::StringBuffer>;

void write_rank(Writer& out, const MemoryUsage& memory) {
  out.StartObject();
  out.Key("device_bytes_peak");
  out.Uint64(0);
  out.Key("host_bytes_peak");
  out.Uint64(memory.bytes_peak);
  out.Key("nvme_bytes");
  out.Uint64(0);
  out.Key("categories");
  out.StartObject();
  for (int tag = 0; tag < kMemoryTags; ++tag) {
    out.Key(std::string(name_of(static_cast<MemoryTag>(tag))).c_str());
    out.Uint64(nth(memory.tag_bytes_at_peak, tag));
  }
  out.EndObject();
  out.EndObject();
}

std::string human_bytes(double bytes) {
  const auto [value, unit] = scale_bytes(bytes);
  return fmt::format("{:.{}f} {}", value, bytes < 1024 ? 0 : 2, unit);
}

}  // namespace

std::string plan_json(const RunPlan& plan) {
  rapidjson::StringBuffer buffer;
  Writer out(buffer);
  out.SetIndent(' ', 2);
  out.StartObject();
  out.Key("world_size");
  out.Int(plan.world_size);
  out.Key("parameters");
  out.Int64(plan.parameters);
  out.Key("ranks");
  out.StartArray();
  for (int rank = 0; rank < plan.world_size; ++rank) write_rank(out, plan.memory);
  out.EndArray();
  out.Key("communication");
  out.StartObject();
  out.Key("data");
  out.StartObject();
  for (const auto& [op, bytes] : plan.wire_bytes) {
    out.Key(op.c_str());
    out.Double(bytes);
  }
  out.EndObject();
  out.EndObject();
  out.Key("flops_per_step");
  out.Double(plan.flops_per_step);
  out.Key("seconds_per_step");
  out.Double(plan.seconds_per_step);
  out.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

std::string plan_text(const RunPlan& plan, const EngineOptions& options) {
  std::string text = fmt::format(
      "model         {:.2f} M parameters, {}\n"
      "batch         {} x {} tokens per rank and micro-step, {} micro-steps, {} ranks\n"
      "memory        {} per rank at the peak\n",
      static_cast<double>(plan.parameters) / 1e6, name_of(options.dtype), options.micro_batch,
      options.length, options.micro_steps(), plan.world_size,
      human_bytes(static_cast<double>(plan.memory.bytes_peak)));
  for (int tag = 0; tag < kMemoryTags; ++tag) {
    const size_t bytes = nth(plan.memory.tag_bytes_at_peak, tag);
    if (bytes == 0) continue;
    text += fmt::format("  {:<16}{}\n", name_of(static_cast<MemoryTag>(tag)),
                        human_bytes(static_cast<double>(bytes)));
  }
  text += "wire          bytes per step and rank\n";
  for (const auto& [op, bytes] : plan.wire_bytes) {
    text += fmt::format("  {:<16}{}\n", op, human_bytes(bytes));
  }
  text += fmt::format("work          {:.2f} GFLOP per step and rank, about {:.3f} s (estimate)\n",
                      plan.flops_per_step / 1e9, plan.seconds_per_step);
  return text;
}

}  // namespace ds
