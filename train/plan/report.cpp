#include <fmt/ranges.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/values/count_text.h"
#include "core/values/index.h"
#include "train/plan/dry_run.h"
#include "train/plan/mesh_text.h"
#include "train/settings/zero_settings.h"

namespace ds {
namespace {

using Writer = rapidjson::PrettyWriter<rapidjson::StringBuffer>;

// A category's bytes are those on all tiers.
size_t bytes_of(const TierUsage& memory, MemoryTag tag) {
  size_t bytes = 0;
  for (const MemoryUsage& tier : memory) bytes += nth(tier.tag_bytes_at_peak, tag);
  return bytes;
}

void write_rank(Writer& out, const TierUsage& memory) {
  out.StartObject();
  for (int i = 0; i < kTiers; ++i) {
    const auto tier = static_cast<Tier>(i);
    out.Key(fmt::format("{}_bytes{}", name_of(tier), tier == Tier::kNvme ? "" : "_peak").c_str());
    out.Uint64(nth(memory, tier).bytes_peak);
  }
  out.Key("categories");
  out.StartObject();
  for (int tag = 0; tag < kMemoryTags; ++tag) {
    out.Key(std::string(name_of(static_cast<MemoryTag>(tag))).c_str());
    out.Uint64(bytes_of(memory, static_cast<MemoryTag>(tag)));
  }
  out.EndObject();
  out.EndObject();
}

// Returns, by axis and operation, the bytes of the rank that moves most.
std::map<std::string, std::map<std::string, double>> largest_traffic(const RunPlan& plan) {
  std::map<std::string, std::map<std::string, double>> largest;
  for (const RankPlan& one : plan.classes) {
    for (const auto& [axis, ops] : one.wire_bytes) {
      for (const auto& [op, bytes] : ops) {
        double& most = largest[axis][op];
        most = std::max(most, bytes);
      }
    }
  }
  return largest;
}

void write_pipeline(Writer& out, const PipelinePlan& pipeline) {
  out.StartObject();
  out.Key("schedule");
  out.String(std::string(to_string(pipeline.schedule)).c_str());
  out.Key("micro_batches");
  out.Int(pipeline.micro_batches);
  out.Key("bubble");
  out.Double(pipeline.bubble);
  out.Key("layers");
  out.StartArray();
  for (const std::vector<LayerRange>& chunks : pipeline.layers) {
    out.StartArray();
    for (const LayerRange& layers : chunks) {
      out.StartArray();
      out.Int64(layers.begin);
      out.Int64(layers.end);
      out.EndArray();
    }
    out.EndArray();
  }
  out.EndArray();
  out.EndObject();
}

// "0-3, 8-11 | 4-7, 12-15": the chunks of each stage.
std::string layers_text(const PipelinePlan& pipeline) {
  std::vector<std::string> stages;
  for (const std::vector<LayerRange>& chunks : pipeline.layers) {
    std::vector<std::string> ranges;
    for (const LayerRange& layers : chunks) {
      ranges.push_back(layers.end - layers.begin == 1
                           ? fmt::format("{}", layers.begin)
                           : fmt::format("{}-{}", layers.begin, layers.end - 1));
    }
    stages.push_back(fmt::format("{}", fmt::join(ranges, ", ")));
  }
  return fmt::format("{}", fmt::join(stages, " | "));
}

std::string pipeline_text(const PipelinePlan& pipeline) {
  return fmt::format(
      "pipeline      {}, {} micro-batches in a step, layers {}; bubble {:.1f} %, about {:.3f} s a "
      "step\n",
      to_string(pipeline.schedule), pipeline.micro_batches, layers_text(pipeline),
      100 * pipeline.bubble, pipeline.seconds);
}

const char* words_of(Device device) { return device.kind == Device::Kind::kCuda ? "cuda" : "cpu"; }

void write_texts(Writer& out, const TextMemory& texts) {
  out.Key("texts");
  out.StartObject();
  out.Key("held_bytes");
  out.Int64(texts.held_bytes);
  out.Key("tokenizing_bytes");
  out.Int64(texts.tokenizing_bytes);
  out.EndObject();
}

// Bytes of a step: those of collectives by axis, and those between tiers.
void write_traffic(Writer& out, const RunPlan& plan) {
  out.Key("communication");
  out.StartObject();
  for (const auto& [axis, ops] : largest_traffic(plan)) {
    out.Key(axis.c_str());
    out.StartObject();
    for (const auto& [op, bytes] : ops) {
      out.Key(op.c_str());
      out.Double(bytes);
    }
    out.EndObject();
  }
  out.EndObject();
  out.Key("links");
  out.StartObject();
  for (int link = 0; link < kLinks; ++link) {
    double most = 0;
    for (const RankPlan& one : plan.classes) most = std::max(most, nth(one.link_bytes, link));
    out.Key(std::string(name_of(static_cast<Link>(link))).c_str());
    out.Double(most);
  }
  out.EndObject();
}

}  // namespace

std::string plan_json(const RunPlan& plan) {
  rapidjson::StringBuffer buffer;
  Writer out(buffer);
  out.SetIndent(' ', 2);
  out.StartObject();
  out.Key("world_size");
  out.Int(plan.world_size());
  out.Key("mesh");
  write_mesh(out, plan.mesh);
  if (plan.pipeline) {
    out.Key("pipeline");
    write_pipeline(out, *plan.pipeline);
  }
  out.Key("device");
  out.String(words_of(plan.device));
  out.Key("parameters");
  out.Int64(plan.parameters());
  out.Key("frozen_parameters");
  out.Int64(plan.frozen());
  out.Key("frozen_in_checkpoints");
  out.Bool(!plan.excludes_frozen);
  out.Key("packed_parameters");
  out.Int64(plan.packed());
  out.Key("teacher_parameters");
  out.Int64(plan.teacher());
  out.Key("ranks");
  out.StartArray();
  for (int rank = 0; rank < plan.world_size(); ++rank) write_rank(out, plan.of_rank(rank).memory);
  out.EndArray();
  if (plan.texts) write_texts(out, *plan.texts);
  if (plan.begins_with) {
    out.Key("begins_with");
    out.String(plan.begins_with->c_str());
  }
  write_traffic(out, plan);
  double flops = 0;
  for (const RankPlan& one : plan.classes) flops = std::max(flops, one.flops_per_step);
  out.Key("flops_per_step");
  out.Double(flops);
  out.Key("seconds_per_step");
  out.Double(plan.seconds_per_step());
  const RankPlan& slowest =
      *std::ranges::max_element(plan.classes, {}, &RankPlan::seconds_per_step);
  out.Key("busy_seconds");
  out.StartObject();
  for (int what = 0; what < kBusyKinds; ++what) {
    out.Key(std::string(name_of(static_cast<Busy>(what))).c_str());
    out.Double(nth(slowest.busy, what));
  }
  out.EndObject();
  out.Key("bound");
  out.String(std::string(name_of(slowest.bound())).c_str());
  out.Key("seconds_from");
  out.String(plan.calibrated ? "calibration" : "ceilings");
  out.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

namespace {

std::string words_of(const std::vector<int>& ranks) {
  const bool is_range = ranks.back() - ranks.front() + 1 == narrow<int>(ranks.size());
  return is_range ? fmt::format("{} to {}", ranks.front(), ranks.back())
                  : fmt::format("{}", fmt::join(ranks, ", "));
}

const char* words_of(Busy what) {
  switch (what) {
    case Busy::kCompute:
      return "compute";
    case Busy::kPeers:
      return "talk to peers";
    case Busy::kToDevice:
      return "copies to the device";
    case Busy::kToHost:
      return "copies to the host";
    case Busy::kHost:
      return "the host's update";
    case Busy::kNvme:
      return "NVMe";
  }
  throw InternalError("plan: what is busy is unknown");
}

// Describes a step that has more to wait for than its own work: what takes longest, and what goes
// on beside it.
std::string bound_text(const RankPlan& plan) {
  if (std::ranges::all_of(plan.link_bytes, [](double bytes) { return bytes == 0; })) return "";
  std::string text = fmt::format("bound         {}, {:.3f} s of it", words_of(plan.bound()),
                                 nth(plan.busy, plan.bound()));
  const char* between = "; besides ";
  for (int what = 0; what < kBusyKinds; ++what) {
    if (static_cast<Busy>(what) == plan.bound() || nth(plan.busy, what) == 0) continue;
    text += fmt::format("{}{} {:.3f} s", std::exchange(between, ", "),
                        words_of(static_cast<Busy>(what)), nth(plan.busy, what));
  }
  return text + "\n";
}

// Memory, traffic and work of the ranks of a class.
std::string class_text(const RankPlan& plan, bool calibrated) {
  std::string text;
  const bool has_one_tier = std::ranges::count_if(plan.memory, [](const MemoryUsage& tier) {
                              return tier.bytes_peak > 0;
                            }) == 1;
  for (int i = 0; i < kTiers; ++i) {
    const MemoryUsage& memory = nth(plan.memory, i);
    if (memory.bytes_peak == 0) continue;
    text += fmt::format("{:<14}{} per rank at the peak\n",
                        has_one_tier ? "memory" : name_of(static_cast<Tier>(i)),
                        size_text(memory.bytes_peak, 2));
    for (int tag = 0; tag < kMemoryTags; ++tag) {
      const size_t bytes = nth(memory.tag_bytes_at_peak, tag);
      if (bytes == 0) continue;
      text +=
          fmt::format("  {:<16}{}\n", name_of(static_cast<MemoryTag>(tag)), size_text(bytes, 2));
    }
  }
  for (const auto& [axis, ops] : plan.wire_bytes) {
    text += plan.wire_bytes.size() == 1
                ? "wire          bytes per step and rank\n"
                : fmt::format("wire          bytes per step and rank over {}\n", axis);
    for (const auto& [op, bytes] : ops)
      text += fmt::format("  {:<16}{}\n", op, size_text(bytes, 2));
  }
  if (std::ranges::any_of(plan.link_bytes, [](double bytes) { return bytes > 0; })) {
    text += "tiers         bytes per step and rank between them\n";
  }
  for (int link = 0; link < kLinks; ++link) {
    const double bytes = nth(plan.link_bytes, link);
    if (bytes == 0) continue;
    text += fmt::format("  {:<16}{}\n", name_of(static_cast<Link>(link)), size_text(bytes, 2));
  }
  return text +
         fmt::format("work          {:.2f} GFLOP per step and rank, about {:.3f} s ({})\n",
                     plan.flops_per_step / 1e9, plan.seconds_per_step,
                     calibrated ? "estimate from operations measured here" : "estimate") +
         bound_text(plan);
}

// Says how long samples are, and what the work of a step's micro-batches takes then; nothing if all
// steps are alike. Of many shapes it says some.
std::string shapes_text(const RankPlan& plan) {
  if (plan.shapes.size() <= 1) return "";
  constexpr size_t kMost = 8;
  std::string text = fmt::format("lengths       {} of samples; the rest is said of the longest\n",
                                 plan.shapes.size());
  const size_t every = (plan.shapes.size() + kMost - 1) / kMost;
  for (size_t i = 0; i < plan.shapes.size(); ++i) {
    if (i % every != 0 && i + 1 != plan.shapes.size()) continue;
    const auto& [shape, step] = plan.shapes[i];
    const auto bytes = static_cast<double>(plan.step.train.at(shape).bytes_total());
    text += fmt::format("  {:<16}{} from step {} on\n", fmt::format("{} tokens", shape.length),
                        size_text(bytes, 2), step);
  }
  return text;
}

// Nothing where texts are read from where they are.
std::string texts_text(const TextMemory& texts) {
  std::string text;
  if (texts.held_bytes > 0) {
    text += fmt::format("texts         at most {} of token ids in each rank\n",
                        size_text(texts.held_bytes, 2));
  }
  if (texts.tokenizing_bytes > 0) {
    text += fmt::format("tokenizing    {} in one process of each host, before training\n",
                        size_text(texts.tokenizing_bytes, 2));
  }
  return text;
}

std::string frozen_text(const RunPlan& plan, const EngineOptions& options) {
  if (plan.frozen() == 0) return "";
  const auto millions = [](int64_t count) { return static_cast<double>(count) / 1e6; };
  std::string text =
      fmt::format(" ({:.2f} M train, {:.2f} M are frozen",
                  millions(plan.parameters() - plan.frozen()), millions(plan.frozen()));
  if (plan.packed() > 0) {
    text += fmt::format(", {:.2f} M of them {}", millions(plan.packed()),
                        code_words(*options.zero.layout.base_code));
  }
  return text + ")";
}

}  // namespace

std::string plan_text(const RunPlan& plan, const EngineOptions& options) {
  std::string text = fmt::format(
      "model         {:.2f} M parameters{}, {}\n"
      "batch         {} x {} tokens per rank and micro-step, {} micro-steps, {} ranks{}\n",
      static_cast<double>(plan.parameters()) / 1e6, frozen_text(plan, options),
      name_of(options.dtype), options.micro_batch, options.length / plan.mesh.sequence,
      options.micro_steps(), plan.world_size(),
      plan.device.kind == Device::Kind::kCuda ? " on a GPU each" : "");
  if (plan.teacher() > 0) {
    text += fmt::format("teacher       {:.2f} M parameters, {}\n",
                        static_cast<double>(plan.teacher()) / 1e6, name_of(options.dtype));
  }
  if (plan.mesh.data != plan.world_size()) {
    text += fmt::format("mesh          {}\n", mesh_words(plan.mesh));
  }
  if (plan.pipeline) text += pipeline_text(*plan.pipeline);
  for (const RankPlan& one : plan.classes) {
    if (plan.classes.size() > 1) text += fmt::format("ranks {}\n", words_of(one.ranks));
    text += class_text(one, plan.calibrated) + shapes_text(one);
  }
  if (plan.texts) text += texts_text(*plan.texts);
  if (plan.begins_with) text += fmt::format("begins with   {}\n", *plan.begins_with);
  return text;
}

}  // namespace ds
