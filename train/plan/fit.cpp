#include "train/plan/fit.h"

#include <fmt/ranges.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/values/count_text.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr int64_t kMostHeads = 1024;

int64_t in_proportion(int64_t value, int64_t heads, int64_t of) {
  return std::max<int64_t>(1, std::llround(static_cast<double>(value) * static_cast<double>(heads) /
                                           static_cast<double>(of)));
}

// Depth and width in proportion to the heads, each of which keeps its size.
ModelDimensions widened(const ModelDimensions& dims, int64_t key_value_heads) {
  const int64_t before = dims.kv_heads;
  const auto scaled = [&](int64_t value) { return in_proportion(value, key_value_heads, before); };
  ModelDimensions out = dims;
  out.kv_heads = key_value_heads;
  out.heads = key_value_heads * (dims.heads / before);
  out.layers = scaled(dims.layers);
  out.inner = scaled(dims.inner);
  out.width = dims.width == dims.heads * dims.head_dim
                  ? out.heads * dims.head_dim
                  : std::max<int64_t>(2, scaled(dims.width) / 2 * 2);
  return out;
}

size_t on_machine(const RunPlan& plan, Tier tier) {
  size_t bytes = 0;
  for (const RankPlan& one : plan.classes) {
    bytes += one.ranks.size() * nth(one.memory, tier).bytes_peak;
  }
  return bytes;
}

size_t host_bytes(const RunPlan& plan) {
  return on_machine(plan, Tier::kHost) + on_machine(plan, Tier::kPinned);
}

// The part of a tier's room that the plan takes, of the tier where that is the largest part.
double share_of(const MachineRoom& room, const RunPlan& plan) {
  const auto share = [](size_t taken, size_t there) {
    if (taken == 0) return 0.0;
    return static_cast<double>(taken) / static_cast<double>(there);  // infinite where is none
  };
  const double of_host = room.host ? share(host_bytes(plan), *room.host) : 0;
  return std::max({share(most_bytes(plan, Tier::kDevice), room.device), of_host,
                   share(on_machine(plan, Tier::kNvme), room.nvme)});
}

// A model that was planned. Its bytes grow with the cube of its heads, because width and depth grow
// with them; so the length, the cube root of the share of the room, grows as they do.
struct Tried {
  int64_t heads = 0;
  double length = 0;
};

// The number of heads to try next: where a line through what is known says that the room ends, but
// at most four times as many as fit while nothing is known not to; every third time the middle, so
// that no bend of the line makes the search long.
int64_t between(const Tried& fits, const Tried& beyond, int tries) {
  const auto distance = static_cast<double>(beyond.heads - fits.heads);
  const auto heads = static_cast<double>(fits.heads);
  double ahead = distance / 2;
  if (std::isinf(beyond.length) && fits.heads > 0) {
    ahead = std::min(3 * heads, fits.length > 0 ? heads / fits.length - heads : 3 * heads);
  } else if (std::isfinite(beyond.length) && tries % 3 != 0) {
    ahead = distance * (1 - fits.length) / (beyond.length - fits.length);
  }
  const double within = std::clamp(std::floor(ahead), 1.0, std::max(1.0, distance - 1));
  return fits.heads + static_cast<int64_t>(within);
}

}  // namespace

size_t most_bytes(const RunPlan& plan, Tier tier) {
  size_t most = 0;
  for (const RankPlan& one : plan.classes) {
    most = std::max(most, nth(one.memory, tier).bytes_peak);
  }
  return most;
}

bool has_room_for(const MachineRoom& room, const RunPlan& plan) {
  return most_bytes(plan, Tier::kDevice) <= room.device &&
         (!room.host || host_bytes(plan) <= *room.host) &&
         on_machine(plan, Tier::kNvme) <= room.nvme;
}

int64_t heads_of(const ModelConfig& model) { return dimensions(model).kv_heads; }

ModelConfig with_heads(const ModelConfig& model, int64_t heads) {
  return with_dimensions(model, widened(dimensions(model), heads));
}

std::optional<Fit> largest_fit(const EngineOptions& like, const MeshSizes& sizes,
                               const MachineRoom& room, const DeviceCeilings& ceilings,
                               int64_t guess) {
  std::optional<Fit> best;
  // Ranks that share the heads have as many of them each.
  const int64_t sharers = int64_t{sizes.tensor} * sizes.sequence;
  const int64_t most = std::max<int64_t>(1, kMostHeads / sharers);
  Tried fits, beyond{.heads = most + 1, .length = std::numeric_limits<double>::infinity()};
  int64_t next = std::clamp<int64_t>(guess / sharers, 1, most);
  for (int tries = 1; beyond.heads - fits.heads > 1; ++tries) {
    EngineOptions options = like;
    options.model = with_heads(like.model, next * sharers);
    RunPlan plan = dry_run(options, sizes, ceilings);
    const Tried tried{.heads = next, .length = std::cbrt(share_of(room, plan))};
    if (has_room_for(room, plan)) {
      fits = tried;
      best = Fit{.model = options.model, .plan = std::move(plan)};
    } else {
      beyond = tried;
    }
    next = between(fits, beyond, tries);
  }
  return best;
}

const FitRow* FitTable::largest() const {
  const FitRow* best = nullptr;
  const auto is_better = [](const Fit& one, const Fit& than) {
    if (one.plan.parameters() != than.plan.parameters()) {
      return one.plan.parameters() > than.plan.parameters();
    }
    return one.plan.seconds_per_step() < than.plan.seconds_per_step();
  };
  for (const FitRow& row : rows) {
    if (row.fit && (best == nullptr || is_better(*row.fit, *best->fit))) best = &row;
  }
  return best;
}

namespace {

using Writer = rapidjson::PrettyWriter<rapidjson::StringBuffer>;

void write_strings(Writer& out, const std::vector<std::string>& texts) {
  out.StartArray();
  for (const std::string& text : texts) out.String(text.c_str());
  out.EndArray();
}

void write_row(Writer& out, const FitRow& row) {
  const auto number = [&](const char* key, int64_t value) {
    out.Key(key);
    out.Int64(value);
  };
  out.StartObject();
  out.Key("settings");
  write_strings(out, row.settings);
  number("micro_batch", row.micro_batch);
  if (!row.refused.empty()) {
    out.Key("refused");
    out.String(row.refused.c_str());
  }
  number("parameters", row.fit ? row.fit->plan.parameters() : 0);
  if (row.fit) {
    const ModelDimensions sizes = dimensions(row.fit->model);
    number("layers", sizes.layers);
    number("width", sizes.width);
    number("heads", sizes.heads);
    number("device_bytes_peak", narrow<int64_t>(most_bytes(row.fit->plan, Tier::kDevice)));
    number("host_bytes_peak", narrow<int64_t>(host_bytes(row.fit->plan)));
    number("nvme_bytes", narrow<int64_t>(on_machine(row.fit->plan, Tier::kNvme)));
    out.Key("seconds_per_step");
    out.Double(row.fit->plan.seconds_per_step());
  }
  out.EndObject();
}

std::string settings_text(const FitRow& row) {
  return row.settings.empty() ? "as configured" : fmt::format("{}", fmt::join(row.settings, " "));
}

std::string row_text(const FitRow& row) {
  if (!row.fit) {
    return fmt::format("{:>12}  {}: {}\n", "none", settings_text(row),
                       row.refused.empty() ? "not even the smallest fits" : row.refused);
  }
  const ModelDimensions sizes = dimensions(row.fit->model);
  return fmt::format(
      "{:>10.2f} M  {:>4} x {:<6} {:>11}  {:>10} {:>10} {:>10}  {:>9.3f}  {}\n",
      static_cast<double>(row.fit->plan.parameters()) / 1e6, sizes.layers, sizes.width,
      row.micro_batch, size_text(most_bytes(row.fit->plan, Tier::kDevice)),
      size_text(host_bytes(row.fit->plan)), size_text(on_machine(row.fit->plan, Tier::kNvme)),
      row.fit->plan.seconds_per_step(), settings_text(row));
}

}  // namespace

std::string fit_json(const FitTable& table) {
  rapidjson::StringBuffer buffer;
  Writer out(buffer);
  out.SetIndent(' ', 2);
  out.StartObject();
  out.Key("world_size");
  out.Int(table.ranks);
  for (const auto& [key, bytes] : {std::pair{"device_memory", table.room.device},
                                   {"host_memory", table.room.host.value_or(0)},
                                   {"nvme", table.room.nvme}}) {
    out.Key(key);
    out.Uint64(bytes);
  }
  out.Key("largest");
  if (const FitRow* const largest = table.largest()) {
    write_row(out, *largest);
  } else {
    out.Null();
  }
  out.Key("ways");
  out.StartArray();
  for (const FitRow& row : table.rows) write_row(out, row);
  out.EndArray();
  out.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

std::string fit_text(const FitTable& table) {
  std::string text = fmt::format(
      "room          {} of device memory for each of {} ranks; {} of the host's and {} of NVMe for "
      "all\n{:>12}  {:>4} x {:<6} {:>11}  {:>10} {:>10} {:>10}  {:>9}  {}\n",
      size_text(table.room.device), table.ranks, size_text(table.room.host.value_or(0)),
      size_text(table.room.nvme), "parameters", "layers", "width", "micro-batch", "device", "host",
      "nvme", "s/step", "settings");
  for (const FitRow& row : table.rows) text += row_text(row);
  const FitRow* const largest = table.largest();
  if (largest == nullptr) return text + "largest       none: not even the smallest model fits\n";
  return text + fmt::format("largest       {:.2f} M parameters: {}\n",
                            static_cast<double>(largest->fit->plan.parameters()) / 1e6,
                            settings_text(*largest));
}

}  // namespace ds
