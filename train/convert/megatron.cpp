#include "train/convert/megatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "core/status/error.h"
#include "core/values/index.h"
#include "model/hf/renamed_tensors.h"
#include "model/hf/weights.h"
#include "train/convert/megatron_pipeline.h"

namespace ds {
namespace {

// What a tensor of Hugging Face's is of one of Megatron's.
enum class Taken : uint8_t {
  kWhole,
  kTurned,      // transposed
  kVocabulary,  // the first rows
  kHeads,       // queries, keys and values of GPT-2, transposed where they have columns
  kQueries,
  kKeys,
  kValues,
  kGates,  // the first half
  kUps,    // the second half
};

struct Layer {
  std::string_view ours, theirs;
  Taken taken = Taken::kWhole;
};

constexpr std::array kGpt2Layers{
    Layer{"attn.c_attn", "self_attention.query_key_value", Taken::kHeads},
    Layer{"attn.c_proj", "self_attention.dense", Taken::kTurned},
    Layer{"mlp.c_fc", "mlp.dense_h_to_4h", Taken::kTurned},
    Layer{"mlp.c_proj", "mlp.dense_4h_to_h", Taken::kTurned},
    Layer{"ln_1", "input_layernorm"},
    Layer{"ln_2", "post_attention_layernorm"},
};
constexpr std::array kLlamaLayers{
    Layer{"self_attn.q_proj", "self_attention.query_key_value", Taken::kQueries},
    Layer{"self_attn.k_proj", "self_attention.query_key_value", Taken::kKeys},
    Layer{"self_attn.v_proj", "self_attention.query_key_value", Taken::kValues},
    Layer{"self_attn.o_proj", "self_attention.dense"},
    Layer{"mlp.gate_proj", "mlp.dense_h_to_4h", Taken::kGates},
    Layer{"mlp.up_proj", "mlp.dense_h_to_4h", Taken::kUps},
    Layer{"mlp.down_proj", "mlp.dense_4h_to_h"},
    Layer{"input_layernorm", "input_layernorm"},
    Layer{"post_attention_layernorm", "post_attention_layernorm"},
};
constexpr std::array kOutside{
    Layer{"transformer.wte", "embedding.word_embeddings", Taken::kVocabulary},
    Layer{"transformer.wpe", "embedding.position_embeddings"},
    Layer{"transformer.ln_f", "final_layernorm"},
    Layer{"model.embed_tokens", "embedding.word_embeddings", Taken::kVocabulary},
    Layer{"model.norm", "final_layernorm"},
    Layer{"lm_head", "output_layer", Taken::kVocabulary},
};

constexpr std::array<std::string_view, 4> kBodies{"embedding.", "encoder.", "transformer.",
                                                  "decoder."};

// Names without those of wrappers, of which one is of the program that has the language model, and
// without the numbers of a pipeline's layers.
std::vector<std::string> without_front(std::span<const std::string> stored) {
  if (auto names = names_in_one_piece(stored)) return *std::move(names);
  constexpr std::string_view kModel = "model.", kInside = "model.language_model.";
  const size_t wrapper = wrapper_bytes(stored);
  std::vector<std::string> names;
  for (const std::string& name : stored) names.push_back(name.substr(wrapper));
  const bool is_model = !names.empty() && std::ranges::all_of(names, [&](const std::string& name) {
    return name.starts_with(kInside);
  });
  for (std::string& name : names) name.erase(0, is_model ? kModel.size() : 0);
  return names;
}

// A name's beginning and its parameter: "h.0.attn.c_attn" and "weight".
std::pair<std::string_view, std::string_view> split_last(std::string_view name) {
  const size_t dot = std::min(name.rfind('.'), name.size());
  return {name.substr(0, dot), name.substr(std::min(dot + 1, name.size()))};
}

struct Found {
  const Layer* layer = nullptr;
  std::string number;  // of the block; empty outside of blocks
};

// "transformer.h.3.mlp.c_fc" or "model.layers.3.mlp.up_proj".
Found layer_of(std::string_view module) {
  const auto in_block = [&](std::string_view front, std::span<const Layer> layers) -> Found {
    if (!module.starts_with(front)) return {};
    const std::string_view rest = module.substr(front.size());
    const size_t dot = rest.find('.');
    if (dot == std::string_view::npos) return {};
    const auto found = std::ranges::find(layers, rest.substr(dot + 1), &Layer::ours);
    if (found == layers.end()) return {};
    return {&*found, std::string(rest.substr(0, dot))};
  };
  if (const Found found = in_block("transformer.h.", kGpt2Layers); found.layer) return found;
  if (const Found found = in_block("model.layers.", kLlamaLayers); found.layer) return found;
  const auto* outside = std::ranges::find(kOutside, module, &Layer::ours);
  if (outside == kOutside.end()) return {};
  return {outside, ""};
}

// The name that is stored, whose releases of Megatron differ in three words; empty: none is.
std::string stored_name(const Found& found, std::string_view parameter,
                        const std::set<std::string>& stored) {
  std::string theirs(found.layer->theirs);
  std::vector<std::string> forms{theirs};
  constexpr std::string_view kAttention = "self_attention.", kNorm = "layernorm";
  if (theirs.starts_with(kAttention)) {
    forms.push_back("attention." + theirs.substr(kAttention.size()));
  }
  if (theirs.ends_with(kNorm)) {
    forms.push_back(theirs.substr(0, theirs.size() - kNorm.size()) + "norm");
  }
  const bool is_embedding = theirs.starts_with("embedding.") || theirs == "output_layer";
  for (const std::string_view body : std::span(kBodies).subspan(1)) {
    const std::string block = found.number.empty() ? "" : fmt::format("layers.{}.", found.number);
    for (const std::string& form : forms) {
      const std::string name =
          fmt::format("language_model.{}{}{}.{}", is_embedding ? "" : body, block, form, parameter);
      if (stored.contains(name)) return name;
    }
  }
  if (theirs == "output_layer" && stored.contains("lm_head.weight")) return "lm_head.weight";
  return "";
}

// How rows of queries, keys and values follow each other.
struct HeadOrder {
  int64_t heads, groups, width;  // width: of one head; groups: heads of keys and of values
  double version;
  std::string name;

  int64_t rows() const { return (heads + 2 * groups) * width; }
  int64_t share() const { return heads / groups; }  // heads of queries of one group

  // Queries, 0, keys, 1, or values, 2.
  std::vector<Range> rows_of(int64_t part) const {
    const int64_t all = part == 0 ? heads : groups;
    if (version >= 2) return by_groups(part);
    if (groups != heads) {
      throw Unsupported(fmt::format(
          "{}: grouped queries of checkpoint_version {}, which is known with as many keys as "
          "queries alone",
          name, version));
    }
    if (version == 1) return by_elements(part);
    return {{part * all * width, (part + 1) * all * width}};
  }

 private:
  // [groups, queries of the group and a key and a value, width]
  std::vector<Range> by_groups(int64_t part) const {
    std::vector<Range> ranges;
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t begin = group * (share() + 2);
      const int64_t first = part == 0 ? begin : begin + share() + part - 1;
      const int64_t count = part == 0 ? share() : 1;
      ranges.push_back({first * width, (first + count) * width});
    }
    return ranges;
  }
  // [heads, width, three]
  std::vector<Range> by_elements(int64_t part) const {
    std::vector<Range> ranges;
    for (int64_t row = 0; row < heads * width; ++row) {
      ranges.push_back({3 * row + part, 3 * row + part + 1});
    }
    return ranges;
  }
};

HeadOrder order_of(const ModelConfig& model, int64_t rows, const std::string& name,
                   double version) {
  const ModelDimensions dims = dimensions(model);
  HeadOrder order{.heads = dims.heads,
                  .groups = dims.kv_heads,
                  .width = rows / (dims.heads + 2 * dims.kv_heads),
                  .version = version,
                  .name = name};
  if (order.rows() != rows || order.width == 0) {
    throw DataError(
        fmt::format("{}: has {} rows, and config.json says {} heads and {} of keys and "
                    "values",
                    name, rows, dims.heads, dims.kv_heads));
  }
  return order;
}

std::vector<Range> rows_taken(const Layer& layer, const ModelConfig& model, const Shape& shape,
                              const std::string& name, double version, int64_t wanted) {
  const int64_t rows = shape[0];
  switch (layer.taken) {
    case Taken::kWhole:
    case Taken::kTurned:
      return {{0, rows}};
    case Taken::kVocabulary:
      return {{0, std::min(rows, wanted)}};
    case Taken::kHeads: {
      std::vector<Range> all;
      const HeadOrder order = order_of(model, rows, name, version);
      for (int64_t part = 0; part < 3; ++part) {
        const std::vector<Range> own = order.rows_of(part);
        all.insert(all.end(), own.begin(), own.end());
      }
      return all;
    }
    case Taken::kQueries:
      return order_of(model, rows, name, version).rows_of(0);
    case Taken::kKeys:
      return order_of(model, rows, name, version).rows_of(1);
    case Taken::kValues:
      return order_of(model, rows, name, version).rows_of(2);
    case Taken::kGates:
      return {{0, rows / 2}};
    case Taken::kUps:
      return {{rows / 2, rows}};
  }
  throw InternalError("rows of no known layer");
}

bool is_turned(const Layer& layer, const Shape& shape) {
  return shape.rank() == 2 && (layer.taken == Taken::kTurned || layer.taken == Taken::kHeads);
}

}  // namespace

bool has_names_of_megatron(std::span<const std::string> stored) {
  const std::vector<std::string> inside = without_front(stored);
  return std::ranges::any_of(inside, [](const std::string& name) {
    return std::ranges::any_of(kBodies, [&](std::string_view body) {
      return name.starts_with(fmt::format("language_model.{}", body));
    });
  });
}

std::vector<TakenRows> taken_rows(const ModelConfig& model, std::span<const ParamSpec> specs,
                                  const WeightFolder& stored, double version) {
  const std::vector<std::string> names = stored.names();
  const std::set<std::string> known(names.begin(), names.end());
  std::vector<TakenRows> all;
  for (const ExportTensor& entry : export_list(specs, DType::kF32)) {
    const std::string& name = entry.tensor.name;
    const auto [module, parameter] = split_last(name);
    const Found found = layer_of(module);
    if (found.layer == nullptr) continue;
    const std::string source = stored_name(found, parameter, known);
    if (source.empty()) continue;
    const Shape& shape = stored.info(source).shape;
    if (shape.rank() == 0) throw DataError(fmt::format("{}: has no rows", source));
    all.push_back(
        {.name = name,
         .stored = source,
         .rows = rows_taken(*found.layer, model, shape, source, version, entry.tensor.shape[0]),
         .is_transposed = is_turned(*found.layer, shape)});
  }
  return all;
}

// --- reading

namespace {

int64_t row_count(std::span<const Range> rows) {
  int64_t count = 0;
  for (const Range& range : rows) count += range.numel();
  return count;
}

class MegatronTensors final : public StoredTensors {
 public:
  MegatronTensors(WeightFolder stored, std::vector<TakenRows> taken) : stored_(std::move(stored)) {
    std::set<std::string> used;
    for (TakenRows& one : taken) {
      used.insert(one.stored);
      SafetensorsInfo info = stored_.info(one.stored);
      const int64_t width = info.shape.numel() / std::max<int64_t>(info.shape[0], 1);
      const int64_t item = info.bytes / std::max<int64_t>(info.shape.numel(), 1);
      const int64_t rows = row_count(one.rows);
      info.shape = info.shape.rank() == 1 ? Shape{rows}
                   : one.is_transposed    ? Shape{width, rows}
                                          : Shape{rows, width};
      info.bytes = rows * width * item;
      const std::string name = one.name;
      entries_.emplace(name,
                       Entry{.info = info, .taken = std::move(one), .width = width, .item = item});
    }
    for (const std::string& name : stored_.names()) {
      if (used.contains(name) || entries_.contains(name)) continue;
      entries_.emplace(name, Entry{.info = stored_.info(name)});
    }
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    return names;
  }
  std::vector<std::string> notes() const override { return stored_.notes(); }
  const SafetensorsInfo& info(const std::string& name) const override { return at(name).info; }
  void read_part(const std::string& name, int64_t offset,
                 std::span<std::byte> into) const override {
    const Entry& entry = at(name);
    if (entry.taken.rows.empty()) return stored_.read_part(name, offset, into);
    if (entry.taken.is_transposed) return read_turned(entry, offset, into);
    read_rows(entry, offset, into);
  }

 private:
  struct Entry {
    SafetensorsInfo info{};
    TakenRows taken{};  // without rows: it is stored so
    int64_t width = 0;  // elements of a stored row
    int64_t item = 0;   // bytes of an element
  };

  const Entry& at(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) throw DataError(fmt::format("there is no tensor '{}'", name));
    return found->second;
  }

  void read_rows(const Entry& entry, int64_t offset, std::span<std::byte> into) const {
    const int64_t row = entry.width * entry.item;
    for (const Range& range : entry.taken.rows) {
      const int64_t bytes = range.numel() * row;
      if (offset >= bytes) {
        offset -= bytes;
        continue;
      }
      const auto part = into.first(to_size(std::min(bytes - offset, std::ssize(into))));
      stored_.read_part(entry.taken.stored, range.begin * row + offset, part);
      into = into.subspan(part.size());
      offset = 0;
      if (into.empty()) return;
    }
  }

  // The stored tensor stays in memory until another is read, for parts of it that follow.
  void read_turned(const Entry& entry, int64_t offset, std::span<std::byte> into) const {
    const std::lock_guard lock(held_mutex_);
    const int64_t row = entry.width * entry.item;
    if (held_ != entry.taken.stored) {
      held_.clear();
      held_bytes_.resize(to_size(stored_.info(entry.taken.stored).bytes));
      stored_.read_part(entry.taken.stored, 0, held_bytes_);
      held_ = entry.taken.stored;
    }
    std::vector<int64_t> rows;
    for (const Range& range : entry.taken.rows) {
      for (int64_t at = range.begin; at < range.end; ++at) rows.push_back(at);
    }
    const auto item = to_size(entry.item);
    int64_t at = offset / entry.item;
    for (size_t done = 0; done < into.size(); done += item, ++at) {
      const int64_t column = at / std::ssize(rows);
      const int64_t from = nth(rows, at % std::ssize(rows)) * row + column * entry.item;
      std::memcpy(&into[done], &held_bytes_[to_size(from)], item);
    }
  }

  WeightFolder stored_;
  std::map<std::string, Entry> entries_;
  mutable std::mutex held_mutex_;  // of those below
  mutable std::string held_;       // the tensor whose bytes they are
  mutable std::vector<std::byte> held_bytes_;
};

}  // namespace

WeightFolder from_megatron(WeightFolder stored, const ModelConfig& model,
                           std::span<const ParamSpec> specs, double version) {
  const std::vector<std::string> names = stored.names(), fronts = without_front(names);
  std::map<std::string, std::string> renamed;
  for (size_t i = 0; i < names.size(); ++i) renamed.emplace(fronts[i], names[i]);
  WeightFolder inside(
      std::make_shared<const RenamedTensors>(std::move(stored), std::move(renamed)));
  std::vector<TakenRows> taken = taken_rows(model, specs, inside, version);
  return WeightFolder(std::make_shared<const MegatronTensors>(std::move(inside), std::move(taken)));
}

}  // namespace ds
