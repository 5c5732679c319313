#include "model/hf/weights.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iterator>
#include <map>

#include "config/families/hf_config.h"
#include "core/device/dispatch.h"
#include "core/text/join_some.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr int64_t kChunkNumel = 1 << 18;  // converted at a time: bounded memory, large enough reads

// The name of the body that a parameter is in, the longest that it may be; empty, if it is in none,
// but in a head.
std::string_view body_of(std::string_view name) {
  std::string_view found;
  for (const std::string_view body : model_bodies()) {
    const bool is_in = name.starts_with(body) && name.substr(body.size()).starts_with('.');
    if (is_in && body.size() > found.size()) found = body;
  }
  return found;
}

std::string without_body_prefix(const std::string& name) {
  const std::string_view body = body_of(name);
  return body.empty() ? name : name.substr(body.size() + 1);
}

// The names that a folder may have for a parameter: its own, and without the words of the body's
// path, one by one. An OPTModel's lack the first of two.
std::vector<std::string> names_for(const std::string& name) {
  std::vector<std::string> names{name};
  for (size_t left = body_of(name).size(); left > 0;) {
    const std::string& last = names.back();
    const size_t word = last.find('.') + 1;
    names.push_back(last.substr(word));
    left = left > word ? left - word : 0;
  }
  return names;
}

// Buffers of old transformers versions that are functions of the config, and a tied bias's second
// name.
bool is_known_buffer(const std::string& name) {
  return std::ranges::any_of(
      std::array{".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias",
                 "rotary_emb.inv_freq", "embeddings.position_ids", "predictions.decoder.bias",
                 "lm_head.decoder.bias"},
      [&](std::string_view end) { return name.ends_with(end); });
}

// Heads of other tasks, which transformers leaves out where a model has none.
bool is_other_head(const std::string& name) {
  const std::string inside = without_body_prefix(name);
  return inside.starts_with("pooler.") || inside.starts_with("cls.seq_relationship.");
}

// Whether it is a parameter of one of the modules.
bool is_within(std::string_view name, const AbsentModules& modules) {
  return std::ranges::any_of(modules, [&](const std::string& module) {
    return name.starts_with(module) && name.substr(module.size()).starts_with('.');
  });
}

constexpr size_t kShown = 5;  // names in a message

// The tensor that has a parameter, alone or with others.
std::string tensor_name(const ParamSpec& spec) {
  return spec.stored ? spec.stored->name : spec.name;
}
Shape tensor_shape(const ParamSpec& spec) {
  const Shape& own = spec.logical_shape();
  if (!spec.stored) return own;
  return own.rank() == 1 ? Shape{spec.stored->rows} : Shape{spec.stored->rows, own[1]};
}

void check_stored(const std::string& folder, const std::string& name, const Shape& shape,
                  const SafetensorsInfo& info) {
  if (!(info.shape == shape)) {
    throw DataError(fmt::format("{}: {} has shape {}, config.json says {}", folder, name,
                                info.shape.to_string(), shape.to_string()));
  }
  const auto dtype = info.stored_dtype;
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16) {
    throw Unsupported(fmt::format("{}: {} is stored as {}; F32, BF16 and F16 can be read", folder,
                                  name, info.dtype_name));
  }
}

int64_t row_width(const Shape& shape) { return shape.rank() == 1 ? 1 : shape[1]; }

// A parameter [experts, rows, columns] that is stored in pieces.
Shape piece_shape(const ParamSpec& spec) {
  const Shape& whole = spec.logical_shape();
  const auto pieces = narrow<int64_t>(spec.pieces.size());
  const int64_t columns = whole[whole.rank() - 1];
  DS_CHECK(whole.numel() % (pieces * columns) == 0, "{}: {} in {} pieces", spec.name,
           whole.to_string(), pieces);
  return {whole.numel() / (pieces * columns), columns};
}

// The names that families have for the weight of a head of its own, each once.
const std::set<std::string>& head_names() {
  static const auto names = [] {
    std::set<std::string> all;
    for (const std::string_view head : model_heads()) all.insert(fmt::format("{}.weight", head));
    return all;
  }();
  return names;
}
bool is_head(const std::string& name) { return head_names().contains(name); }
// The head that is stored, by whatever name: transformers reads a GPT-NeoX's by either. Empty: none
// is.
std::string stored_head(const std::set<std::string>& stored) {
  for (const std::string& name : head_names()) {
    if (stored.contains(name)) return name;
  }
  return "";
}

std::vector<Run> in_chunks(std::span<const Run> runs) {
  std::vector<Run> chunks;
  for (const Run& run : runs) {
    for (int64_t done = 0; done < run.numel; done += kChunkNumel) {
      chunks.push_back({.first = run.first + done,
                        .numel = std::min(kChunkNumel, run.numel - done),
                        .inside = run.inside + done});
    }
  }
  return chunks;
}

template <class From, class To>
void convert(const std::vector<std::byte>& bytes, int64_t count, To* to) {
  const auto* from = reinterpret_cast<const From*>(bytes.data());
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(static_cast<float>(from[i]));
}

}  // namespace

namespace {

// The layer that a stored tensor belongs to: 3 for "transformer.h.3.ln_1.weight", -1 for none.
// `list`: "transformer.h." or what is left of it where a folder leaves the first words out.
int64_t layer_in(std::string_view name, std::string_view list) {
  if (!name.starts_with(list)) return -1;
  int32_t layer = -1;
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + list.size(), end, layer);
  return parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == '.' ? layer : -1;
}
int64_t layer_of(std::string_view name, std::string_view list) {
  int64_t layer = layer_in(name, list);
  for (size_t dot = list.find('.'); layer < 0 && dot + 1 < list.size(); dot = list.find('.')) {
    list.remove_prefix(dot + 1);
    layer = layer_in(name, list);
  }
  return layer;
}

}  // namespace

AbsentModules absent_modules(const ModelConfig& config) {
  const bool is_fresh =
      config.pairs ? config.pairs->is_fresh : config.classifier && config.classifier->is_fresh;
  return is_fresh ? classifier_modules(config) : AbsentModules();
}

ModelConfig read_hf_model(FileSystem& file_system, const std::string& folder,
                          const WantedClasses& wanted) {
  ModelConfig config = read_hf_config(file_system, folder, wanted);
  if (!has_hf_weights(file_system, folder)) return config;
  const std::string list = block_list(config) + ".";
  int64_t layers = 0;
  for (const std::string& name : WeightFolder::open(file_system, folder).names()) {
    layers = std::max(layers, layer_of(name, list) + 1);
  }
  if (const int64_t stated = dimensions(config).layers; stated != layers) {
    throw DataError(
        fmt::format("{}: config.json says \"{}\": {}, but the weights beside it have {} layers",
                    folder, layers_key(config), stated, layers));
  }
  return config;
}

bool has_hf_weights(FileSystem& file_system, const std::string& folder) {
  return WeightFolder::exists(file_system, folder);
}

HfWeights::HfWeights(FileSystem& file_system, const std::string& folder,
                     std::span<const ParamSpec> specs, AbsentModules absent)
    : HfWeights(WeightFolder::open(file_system, folder), folder, specs,
                {.headless = headless_class(file_system, folder), .modules = std::move(absent)}) {}

HfWeights::HfWeights(WeightFolder tensors, std::string path, std::span<const ParamSpec> specs,
                     NewHead head_of_it)
    : path_(std::move(path)),
      folder_(std::move(tensors)),
      headless_(std::move(head_of_it.headless)) {
  const AbsentModules& absent = head_of_it.modules;
  const std::vector<std::string> names = folder_.names();
  const std::set<std::string> present(names.begin(), names.end());
  std::vector<std::string> missing;
  std::set<std::string> used;
  const bool has_head = !absent.empty() || std::ranges::any_of(specs, [](const ParamSpec& spec) {
    return is_head(spec.name);
  });
  const std::string head = stored_head(present);
  for (const ParamSpec& spec : specs) {
    std::string stored = stored_name_of(tensor_name(spec), present);
    if (!spec.pieces.empty() && !present.contains(stored)) {
      places_.push_back(piecewise(spec, present, missing));
      used.insert(places_.back().pieces.begin(), places_.back().pieces.end());
      continue;
    }
    // A folder may keep either of two that are tied.
    const bool is_tied_table = !has_head && !head.empty() && is_token_table(spec.name);
    if ((is_head(spec.name) || is_tied_table) && !present.contains(stored)) stored = head;
    const bool is_elsewhere = head_of_it.is_without_adapters && is_adapter_parameter(spec.name);
    if (is_elsewhere && !present.contains(stored)) {
      places_.push_back({.name = "", .cut = spec.cut, .whole = spec.logical_shape()});
      continue;
    }
    if (!present.contains(stored)) {
      const bool is_fresh =
          is_within(spec.name, absent) || (!headless_.empty() && body_of(spec.name).empty());
      std::vector<std::string>& list = is_fresh ? fresh_ : missing;
      if (std::ranges::find(list, tensor_name(spec)) == list.end())
        list.push_back(tensor_name(spec));
      places_.push_back({.name = "", .cut = spec.cut, .whole = spec.logical_shape()});
      continue;
    }
    check_stored(path_, tensor_name(spec), tensor_shape(spec), folder_.info(stored));
    if (is_tied_table && stored != head) {
      check_stored(path_, head, spec.logical_shape(), folder_.info(head));
      tied_head_ = head;
      tied_embeddings_ = places_.size();
    }
    used.insert(stored);
    places_.push_back({.name = std::move(stored),
                       .cut = spec.cut,
                       .whole = spec.logical_shape(),
                       .rows = spec.stored});
  }
  if (!missing.empty()) {
    std::vector<std::string> others;
    std::ranges::set_difference(names, used, std::back_inserter(others));
    throw DataError(fmt::format(
        "{}: weights without {}{}", path_, join_some(missing, kShown),
        others.empty() ? "" : fmt::format("; there are {}", join_some(others, kShown))));
  }
  std::vector<std::string> unknown;
  for (const std::string& name : names) {
    if (used.contains(name) || is_known_buffer(name) || name == tied_head_) continue;
    const bool is_head_of_another = !absent.empty() && without_body_prefix(name) == name;
    (is_other_head(name) || is_head_of_another ? left_out_ : unknown).push_back(name);
  }
  if (!unknown.empty()) {
    throw DataError(fmt::format("{}: weights that its config.json has no place for: {}", path_,
                                join_some(unknown, kShown)));
  }
}

HfWeights::Place HfWeights::piecewise(const ParamSpec& spec, const std::set<std::string>& present,
                                      std::vector<std::string>& missing) const {
  Place place{.name = "", .cut = spec.cut, .whole = spec.logical_shape()};
  for (const std::string& piece : spec.pieces) {
    std::string stored = stored_name_of(piece, present);
    if (!present.contains(stored)) {
      missing.push_back(piece);
      continue;
    }
    check_stored(path_, piece, piece_shape(spec), folder_.info(stored));
    place.pieces.push_back(std::move(stored));
  }
  if (!place.pieces.empty()) place.name = place.pieces.front();
  return place;
}

void HfWeights::read(size_t index, int64_t begin, Tensor& range) const {
  DS_CHECK(index < places_.size(), "read: parameter {} of {}", index, places_.size());
  const Place& place = places_[index];
  DS_CHECK(is_stored(index), "read: parameter {} is not in {}", index, path_);
  const std::vector<Run> runs = stored_runs(place, {begin, begin + range.numel()});
  if (!place.pieces.empty()) return read_pieces(place, runs, range);
  read_runs(place.name, runs, range);
  if (tied_embeddings_ == index) compare_tied_head(runs, range);
}

std::vector<Run> HfWeights::stored_runs(const Place& place, const Range& range) const {
  std::vector<Run> runs = runs_of({.cut = place.cut, .within = range}, place.whole);
  if (!place.rows) return runs;
  const int64_t width = row_width(place.whole), block = place.rows->block * width;
  std::vector<Run> stored;
  for (const Run& run : runs) {  // a block lies together
    for (int64_t done = 0; done < run.numel;) {
      const int64_t own = run.first + done;
      const int64_t count = std::min(run.numel - done, block - own % block);
      stored.push_back({.first = place.rows->row_of(own / width) * width + own % width,
                        .numel = count,
                        .inside = run.inside + done});
      done += count;
    }
  }
  return stored;
}

void HfWeights::read_runs(const std::string& name, std::span<const Run> runs, Tensor& range) const {
  for (const Run& run : runs) {
    Tensor part = range.narrow(run.inside, run.numel);
    read_stored(name, run.first, part);
  }
}

void HfWeights::read_pieces(const Place& place, std::span<const Run> runs, Tensor& range) const {
  const int64_t each = place.whole.numel() / narrow<int64_t>(place.pieces.size());
  for (const Run& run : runs) {
    for (int64_t done = 0; done < run.numel;) {
      const int64_t own = run.first + done;
      const int64_t count = std::min(run.numel - done, each - own % each);
      Tensor part = range.narrow(run.inside + done, count);
      read_stored(place.pieces[to_size(own / each)], own % each, part);
      done += count;
    }
  }
}

// Tied, the head is the embeddings; one that was trained apart would be lost without a word.
void HfWeights::compare_tied_head(std::span<const Run> runs, const Tensor& range) const {
  std::vector<std::byte> bytes;
  for (const Run& run : in_chunks(runs)) {
    bytes.resize(to_size(run.numel) * size_of(range.dtype()));
    Tensor head = Tensor::borrow(bytes.data(), {run.numel}, range.dtype());
    read_stored(tied_head_, run.first, head);
    const std::byte* const embeddings = static_cast<const std::byte*>(range.raw()) +
                                        run.inside * static_cast<int64_t>(size_of(range.dtype()));
    if (std::memcmp(embeddings, bytes.data(), head.bytes()) != 0) {
      throw DataError(fmt::format(
          "{}: config.json ties the output to the embeddings (\"tie_word_embeddings\", which is "
          "true where a family has it so without saying it), but {} differs from {}; set it to "
          "false there, or, for an encoder, which is always tied, remove {} from the weights",
          path_, tied_head_, places_[*tied_embeddings_].name, tied_head_));
    }
  }
}

void HfWeights::read_stored(const std::string& name, int64_t begin, Tensor& range) const {
  const SafetensorsInfo& info = folder_.info(name);
  DS_CHECK(begin >= 0 && begin + range.numel() <= info.shape.numel(),
           "read: elements [{}, {}) of {} {}", begin, begin + range.numel(), name,
           info.shape.to_string());
  const auto item = static_cast<int64_t>(size_of(info.dtype()));
  if (info.dtype() == range.dtype()) {
    folder_.read_part(name, begin * item, {static_cast<std::byte*>(range.raw()), range.bytes()});
    return;
  }
  std::vector<std::byte> chunk;
  for (int64_t done = 0; done < range.numel(); done += kChunkNumel) {
    const int64_t count = std::min(kChunkNumel, range.numel() - done);
    chunk.resize(to_size(count * item));
    folder_.read_part(name, (begin + done) * item, chunk);
    on_float(info.dtype(), [&]<class From>() {
      on_float(range.dtype(),
               [&]<class To>() { convert<From>(chunk, count, range.data<To>() + done); });
    });
  }
}

int64_t HfWeights::bytes() const {
  std::set<std::string> names;
  for (const Place& place : places_) {
    if (!place.name.empty()) names.insert(place.name);
    names.insert(place.pieces.begin(), place.pieces.end());
  }
  int64_t sum = 0;
  for (const std::string& name : names) sum += folder_.info(name).bytes;
  return sum;
}

namespace {

// Files of TensorFlow's time have these names of a norm's parameters, which transformers still
// reads.
std::string old_norm_name(const std::string& parameter) {
  for (const auto& [now, then] : {std::pair<std::string_view, std::string_view>{"weight", "gamma"},
                                  std::pair<std::string_view, std::string_view>{"bias", "beta"}}) {
    if (!parameter.ends_with(now)) continue;
    return parameter.substr(0, parameter.size() - now.size()) + std::string(then);
  }
  return parameter;
}

}  // namespace

std::string stored_name_of(const std::string& parameter, const std::set<std::string>& stored) {
  for (const std::string& name : names_for(parameter)) {
    for (const std::string& form : {name, old_norm_name(name)}) {
      if (stored.contains(form)) return form;
    }
  }
  return without_body_prefix(parameter);
}

std::vector<ParamSpec> specs_of(const ParameterStore& store) {
  std::vector<ParamSpec> specs;
  for (ParamId id = 0; id < store.count(); ++id) specs.push_back(store.spec(id));
  return specs;
}

std::vector<ExportTensor> export_list(std::span<const ParamSpec> specs, DType dtype) {
  std::vector<ExportTensor> list;
  std::map<std::string, size_t> places;
  for (const ParamSpec& spec : specs) {
    for (int64_t begin = 0; const std::string& piece : spec.pieces) {
      const Shape shape = piece_shape(spec);
      list.push_back({.tensor = {.name = piece, .dtype = dtype, .shape = shape},
                      .parts = {&spec},
                      .begin = begin});
      begin += shape.numel();
    }
    if (!spec.pieces.empty()) continue;
    const std::string name = tensor_name(spec);
    const auto [place, is_new] = places.try_emplace(name, list.size());
    if (is_new) {
      list.push_back({.tensor = {.name = name, .dtype = dtype, .shape = tensor_shape(spec)}});
    }
    nth(list, place->second).parts.push_back(&spec);
  }
  return list;
}

void place_rows(const ParamSpec& spec, std::span<const float> from, std::span<float> whole) {
  if (!spec.stored) {
    std::ranges::copy(from, whole.begin());
    return;
  }
  const auto width = to_size(row_width(spec.logical_shape()));
  for (size_t row = 0; row * width < from.size(); ++row) {
    const auto to = to_size(spec.stored->row_of(narrow<int64_t>(row)));
    std::ranges::copy(from.subspan(row * width, width), whole.subspan(to * width, width).begin());
  }
}

}  // namespace ds
