#include "train/plan/suggest.h"

#include <fmt/ranges.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "core/values/count_text.h"
#include "core/values/index.h"
#include "train/plan/fit.h"
#include "train/plan/mesh_text.h"

namespace ds {
namespace {

// Those along which ranks work on one sample together, the nearest first.
struct SharedAxis {
  Axis axis;
  int MeshSizes::*size;
};
constexpr std::array kSharedAxes{SharedAxis{Axis::kTensor, &MeshSizes::tensor},
                                 SharedAxis{Axis::kSequence, &MeshSizes::sequence},
                                 SharedAxis{Axis::kPipe, &MeshSizes::pipe}};

// Heads traded among all that share a sequence, rings of all of them, and what is between.
void add_rings(const MeshSizes& mesh, std::vector<MeshSizes>& meshes) {
  for (int ring = 1; ring <= mesh.sequence; ++ring) {
    if (mesh.sequence % ring != 0) continue;
    meshes.push_back(mesh);
    meshes.back().ring = ring;
  }
}

void add_meshes(int ranks, size_t axis, const MeshSizes& so_far, std::vector<MeshSizes>& meshes) {
  if (axis == kSharedAxes.size()) {
    MeshSizes mesh = so_far;
    mesh.data = ranks;
    add_rings(mesh, meshes);
    return;
  }
  for (int size = 1; size <= ranks; ++size) {
    if (ranks % size != 0) continue;
    MeshSizes mesh = so_far;
    mesh.*(nth(kSharedAxes, axis).size) = size;
    add_meshes(ranks / size, axis + 1, mesh, meshes);
  }
}

}  // namespace

std::vector<MeshSizes> meshes_of(int ranks) {
  DS_CHECK(ranks >= 1, "meshes: {} ranks, expected 1 or more", ranks);
  std::vector<MeshSizes> meshes;
  add_meshes(ranks, 0, {}, meshes);
  std::ranges::stable_sort(meshes, std::ranges::greater(), &MeshSizes::data);
  return meshes;
}

BatchSizes batch_over(int64_t samples, int64_t ranks, int64_t micro) {
  DS_CHECK(samples >= 1 && ranks >= 1 && micro >= 1,
           "batch: {} samples for {} ranks in micro-batches of {}", samples, ranks, micro);
  if (samples % ranks != 0) {
    throw ConfigError(fmt::format(
        "train_batch_size: {} ranks that see different samples cannot have equally many of {}; "
        "expected a multiple of {}",
        ranks, samples, ranks));
  }
  const int64_t own = samples / ranks;
  int64_t size = std::min(micro, own);
  while (own % size != 0) --size;
  return {.train = samples, .micro = size, .accumulation = own / size};
}

void MeshTable::sort() {
  const auto key = [](const MeshRow& row) {
    const bool out = !row.ruled_out.empty();
    return std::tuple(out, out ? 0 : row.plan->seconds_per_step(),
                      out ? 0 : most_bytes(*row.plan, Tier::kDevice));
  };
  std::ranges::stable_sort(rows, std::ranges::less(), key);
}

const MeshRow* MeshTable::best() const {
  return rows.empty() || !rows.front().ruled_out.empty() ? nullptr : &rows.front();
}

namespace {

using Writer = rapidjson::PrettyWriter<rapidjson::StringBuffer>;

// Returns the bytes of a step along each axis, those of the rank that sends most there.
std::map<std::string, double> bytes_by_axis(const RunPlan& plan) {
  std::map<std::string, double> most;
  for (const RankPlan& one : plan.classes) {
    for (const auto& [axis, ops] : one.wire_bytes) {
      double sum = 0;
      for (const auto& [op, bytes] : ops) sum += bytes;
      most[axis] = std::max(most[axis], sum);
    }
  }
  std::erase_if(most, [](const auto& axis) { return axis.second == 0; });
  return most;
}

void write_row(Writer& out, const MeshRow& row) {
  const auto number = [&](const std::string& key, int64_t value) {
    out.Key(key.c_str());
    out.Int64(value);
  };
  out.StartObject();
  out.Key("mesh");
  write_mesh(out, row.mesh);
  out.Key("settings");
  out.StartArray();
  for (const std::string& word : row.settings) out.String(word.c_str());
  out.EndArray();
  if (row.plan) {
    number("zero_stage", row.zero_stage);
    number("micro_batch", row.micro_batch);
    number("micro_steps", row.micro_steps);
    out.Key("seconds_per_step");
    out.Double(row.plan->seconds_per_step());
    for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kPinned}) {
      number(fmt::format("{}_bytes_peak", name_of(tier)),
             narrow<int64_t>(most_bytes(*row.plan, tier)));
    }
    number("nvme_bytes", narrow<int64_t>(most_bytes(*row.plan, Tier::kNvme)));
    out.Key("communication");
    out.StartObject();
    for (const auto& [axis, bytes] : bytes_by_axis(*row.plan)) {
      out.Key(axis.c_str());
      out.Double(bytes);
    }
    out.EndObject();
  }
  if (!row.ruled_out.empty()) {
    out.Key("ruled_out");
    out.String(row.ruled_out.c_str());
  }
  out.EndObject();
}

std::string row_text(const MeshRow& row) {
  std::vector<std::string> traffic;
  for (const auto& [axis, bytes] : bytes_by_axis(*row.plan)) {
    traffic.push_back(fmt::format("{} {}", axis, size_text(bytes)));
  }
  if (traffic.empty()) traffic.emplace_back("none");
  return fmt::format("{:>10.4g}  {:>10}  {:>5}  {:>11}  {:<46}  {}\n", row.plan->seconds_per_step(),
                     size_text(most_bytes(*row.plan, Tier::kDevice)), row.zero_stage,
                     fmt::format("{} x {}", row.micro_steps, row.micro_batch), mesh_words(row.mesh),
                     fmt::join(traffic, ", "));
}

}  // namespace

std::string suggestions_json(const MeshTable& table) {
  rapidjson::StringBuffer buffer;
  Writer out(buffer);
  out.SetIndent(' ', 2);
  out.StartObject();
  out.Key("world_size");
  out.Int(table.ranks);
  out.Key("hosts");
  out.Int(table.hosts);
  const auto write_rows = [&](const char* key, bool ruled_out) {
    out.Key(key);
    out.StartArray();
    for (const MeshRow& row : table.rows) {
      if (row.ruled_out.empty() != ruled_out) write_row(out, row);
    }
    out.EndArray();
  };
  write_rows("meshes", false);
  write_rows("ruled_out", true);
  out.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

std::string suggestions_text(const MeshTable& table) {
  const auto possible =
      std::ranges::count_if(table.rows, [](const MeshRow& row) { return row.ruled_out.empty(); });
  std::string text = fmt::format(
      "ranks         {} on {} host{}\nmeshes        {} of {} are possible\n", table.ranks,
      table.hosts, table.hosts == 1 ? "" : "s", possible, table.rows.size());
  if (possible > 0) {
    text += fmt::format("{:>10}  {:>10}  {:>5}  {:>11}  {:<46}  {}\n", "s/step", "memory", "stage",
                        "micro-batch", "mesh", "bytes per step and rank");
  }
  for (const MeshRow& row : table.rows) {
    if (row.ruled_out.empty()) text += row_text(row);
  }
  for (const MeshRow& row : table.rows) {
    if (row.ruled_out.empty()) continue;
    text +=
        fmt::format("ruled out     {}{}: {}\n", mesh_words(row.mesh),
                    row.plan ? fmt::format(", ZeRO stage {}", row.zero_stage) : "", row.ruled_out);
  }
  const MeshRow* const best = table.best();
  if (best == nullptr) return text + "fastest       none: every mesh is ruled out\n";
  return text + fmt::format("fastest       {}: {}\n", mesh_words(best->mesh),
                            best->settings.empty()
                                ? "as configured"
                                : fmt::format("{}", fmt::join(best->settings, " ")));
}

}  // namespace ds
