#include "model/hf/weights.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "config/families/hf_config.h"
#include "core/device/dispatch.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr int64_t kChunkNumel = 1 << 18;  // converted at a time: bounded memory, large enough reads

std::string without_body_prefix(const std::string& name) {
  for (const std::string_view body : model_bodies()) {
    if (name.starts_with(body) && name.substr(body.size()).starts_with('.')) {
      return name.substr(body.size() + 1);
    }
  }
  return name;
}

// Buffers of old transformers versions that are functions of the config.
bool is_known_buffer(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq");
}

std::string join_some(const std::vector<std::string>& items) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(items.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + items[i];
  }
  if (items.size() > kShown) text += fmt::format(" and {} more", items.size() - kShown);
  return text;
}

void check_stored(const std::string& folder, const ParamSpec& spec, const SafetensorsInfo& info) {
  if (!(info.shape == spec.logical_shape())) {
    throw DataError(fmt::format("{}: {} has shape {}, config.json says {}", folder, spec.name,
                                info.shape.to_string(), spec.logical_shape().to_string()));
  }
  const DType dtype = info.dtype();
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16) {
    throw Unsupported(fmt::format("{}: {} is stored as {}; F32, BF16 and F16 can be read", folder,
                                  spec.name, info.dtype_name));
  }
}

constexpr const char* kHead = "lm_head.weight";

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
int64_t layer_of(const std::string& stored, std::string_view list) {
  const std::string name = without_body_prefix(stored);
  if (!name.starts_with(list)) return -1;
  int32_t layer = -1;
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + list.size(), end, layer);
  return parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == '.' ? layer : -1;
}

}  // namespace

ModelConfig read_hf_model(FileSystem& file_system, const std::string& folder) {
  ModelConfig config = read_hf_config(file_system, folder);
  if (!has_hf_weights(file_system, folder)) return config;
  const std::string list = fmt::format("{}.", decoder_spec(config).names.blocks);
  int64_t layers = 0;
  for (const std::string& name : SafetensorsFolder::open(file_system, folder).names()) {
    layers = std::max(layers, layer_of(name, list) + 1);
  }
  if (const int64_t wanted = dimensions(config).layers; wanted != layers) {
    throw DataError(
        fmt::format("{}: config.json says \"{}\": {}, but the weights beside it have {} layers",
                    folder, layers_key(config), wanted, layers));
  }
  return config;
}

bool has_hf_weights(FileSystem& file_system, const std::string& folder) {
  return file_system.exists(join_path(folder, "model.safetensors")) ||
         file_system.exists(join_path(folder, "model.safetensors.index.json"));
}

HfWeights::HfWeights(FileSystem& file_system, const std::string& folder,
                     std::span<const ParamSpec> specs)
    : path_(folder), folder_(SafetensorsFolder::open(file_system, folder)) {
  const std::vector<std::string> names = folder_.names();
  const std::set<std::string> present(names.begin(), names.end());
  std::vector<std::string> missing;
  std::set<std::string> used;
  const bool has_head =
      std::ranges::any_of(specs, [](const ParamSpec& spec) { return spec.name == kHead; });
  for (const ParamSpec& spec : specs) {
    std::string stored = stored_name_of(spec.name, present);
    if (!present.contains(stored)) {
      missing.push_back(spec.name);
      continue;
    }
    check_stored(folder, spec, folder_.info(stored));
    if (!has_head && present.contains(kHead) && is_token_table(spec.name)) {
      check_stored(folder,
                   {.name = kHead, .shape = spec.logical_shape(), .dtype = spec.dtype, .init = {}},
                   folder_.info(kHead));
      tied_embeddings_ = stored_names_.size();
    }
    used.insert(stored);
    stored_names_.push_back(std::move(stored));
    cuts_.push_back(spec.cut);
  }
  if (!missing.empty()) {
    throw DataError(fmt::format("{}: weights without {}", folder, join_some(missing)));
  }
  std::vector<std::string> unknown;
  for (const std::string& name : names) {
    const bool tied_head = name == kHead && !has_head;
    if (!used.contains(name) && !is_known_buffer(name) && !tied_head) unknown.push_back(name);
  }
  if (!unknown.empty()) {
    throw DataError(fmt::format("{}: weights that its config.json has no place for: {}", folder,
                                join_some(unknown)));
  }
}

void HfWeights::read(size_t index, int64_t begin, Tensor& range) const {
  DS_CHECK(index < stored_names_.size(), "read: parameter {} of {}", index, stored_names_.size());
  const std::string& name = stored_names_[index];
  const Region region{.cut = cuts_[index], .within = {begin, begin + range.numel()}};
  const std::vector<Run> runs = runs_of(region, folder_.info(name).shape);
  read_runs(name, runs, range);
  if (tied_embeddings_ == index) compare_tied_head(runs, range);
}

void HfWeights::read_runs(const std::string& name, std::span<const Run> runs, Tensor& range) const {
  for (const Run& run : runs) {
    Tensor part = range.narrow(run.inside, run.numel);
    read_stored(name, run.first, part);
  }
}

// Tied, the head is the embeddings; one that was trained apart would be lost without a word.
void HfWeights::compare_tied_head(std::span<const Run> runs, const Tensor& range) const {
  std::vector<std::byte> bytes;
  for (const Run& run : in_chunks(runs)) {
    bytes.resize(to_size(run.numel) * size_of(range.dtype()));
    Tensor head = Tensor::borrow(bytes.data(), {run.numel}, range.dtype());
    read_stored(kHead, run.first, head);
    const std::byte* const embeddings = static_cast<const std::byte*>(range.raw()) +
                                        run.inside * static_cast<int64_t>(size_of(range.dtype()));
    if (std::memcmp(embeddings, bytes.data(), head.bytes()) != 0) {
      throw DataError(fmt::format(
          "{}: config.json ties the output to the embeddings (\"tie_word_embeddings\", which "
          "GPT-2 has without saying so), but {} differs from {}; set it to false there",
          path_, kHead, stored_names_[*tied_embeddings_]));
    }
  }
}

void HfWeights::read_stored(const std::string& name, int64_t begin, Tensor& range) const {
  const SafetensorsInfo& info = folder_.info(name);
  DS_CHECK(begin >= 0 && begin + range.numel() <= info.shape.numel(),
           "read: elements [{}, {}) of {} {}", begin, begin + range.numel(), name,
           info.shape.to_string());
  const SafetensorsFile& file = folder_.file(name);
  const auto item = static_cast<int64_t>(size_of(info.dtype()));
  if (info.dtype() == range.dtype()) {
    file.read_part(name, begin * item, {static_cast<std::byte*>(range.raw()), range.bytes()});
    return;
  }
  std::vector<std::byte> chunk;
  for (int64_t done = 0; done < range.numel(); done += kChunkNumel) {
    const int64_t count = std::min(kChunkNumel, range.numel() - done);
    chunk.resize(to_size(count * item));
    file.read_part(name, (begin + done) * item, chunk);
    on_float(info.dtype(), [&]<class From>() {
      on_float(range.dtype(),
               [&]<class To>() { convert<From>(chunk, count, range.data<To>() + done); });
    });
  }
}

int64_t HfWeights::bytes() const {
  int64_t sum = 0;
  for (const std::string& name : stored_names_) sum += folder_.info(name).bytes;
  return sum;
}

std::string stored_name_of(const std::string& parameter, const std::set<std::string>& stored) {
  return stored.contains(parameter) ? parameter : without_body_prefix(parameter);
}

std::vector<ParamSpec> specs_of(const ParameterStore& store) {
  std::vector<ParamSpec> specs;
  for (ParamId id = 0; id < store.count(); ++id) specs.push_back(store.spec(id));
  return specs;
}

std::vector<SafetensorsTensor> export_list(std::span<const ParamSpec> specs, DType dtype) {
  std::vector<SafetensorsTensor> list;
  for (const ParamSpec& spec : specs) {
    list.push_back({.name = spec.name, .dtype = dtype, .shape = spec.logical_shape()});
  }
  return list;
}

}  // namespace ds
