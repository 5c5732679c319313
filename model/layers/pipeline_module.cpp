#include "model/layers/pipeline_module.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/memory/resource.h"
#include "core/values/index.h"
#include "model/layers/pipeline_module_stage.h"
#include "model/stores/plain_store.h"

namespace ds {
namespace {

// Hands parameters on to a store, but for those of tied layers that it has: these have one use
// more. Of what lies between the layers here and others, the first stage counts.
class SharingStore final : public ParameterStore {
 public:
  SharingStore(ParameterStore& store, std::set<std::string> beyond)
      : store_(store), beyond_(std::move(beyond)) {}

  // The layer that adds parameters from now on.
  void begin(const std::string& key) { key_ = key; }

  ParamId add(ParamSpec spec) override {
    added_.insert(spec.name);
    if (const auto known = uses_.find(spec.name); known != uses_.end() && !key_.empty()) {
      auto& [id, uses] = known->second;
      const ParamSpec& first = store_.spec(id);
      if (first.shape != spec.shape || first.dtype != spec.dtype) {
        throw ConfigError(fmt::format(
            "pipeline module: layers tied by '{}' want {} as {} {} and as {} {}, expected alike",
            key_, spec.name, name_of(first.dtype), first.shape.to_string(), name_of(spec.dtype),
            spec.shape.to_string()));
      }
      store_.expect_uses(id, ++uses);
      return id;
    }
    const std::string name = spec.name;
    const bool is_shared = beyond_.contains(name);
    if (is_shared) spec.replicas.same.push_back(Axis::kPipe);
    const ParamId id = store_.add(std::move(spec));
    uses_[name] = {id, 1};
    if (is_shared) shared_[name] = id;
    return id;
  }
  void seal() override { throw InternalError("pipeline module: a layer seals the store"); }
  int count() const override { return store_.count(); }
  const ParamSpec& spec(ParamId id) const override { return store_.spec(id); }
  Lease acquire(ParamId id) override { return store_.acquire(id); }
  GradSlot grad_slot(ParamId id) override { return store_.grad_slot(id); }
  void grad_ready(ParamId id) override { store_.grad_ready(id); }
  void expect_uses(ParamId id, int uses) override { store_.expect_uses(id, uses); }

  std::set<std::string> take_added() { return std::exchange(added_, {}); }
  std::vector<ParamId> shared() const {  // by their names, so alike on both stages
    std::vector<ParamId> ids;
    for (const auto& [name, id] : shared_) ids.push_back(id);
    return ids;
  }

 private:
  ParameterStore& store_;
  const std::set<std::string> beyond_;
  std::string key_;
  std::map<std::string, std::pair<ParamId, int>> uses_;
  std::map<std::string, ParamId> shared_;
  std::set<std::string> added_;
};

// The layer, or the loss, built in its place.
template <class Built>
std::unique_ptr<Built> built(const SpecOf<Built>& spec, std::string_view place, int64_t index,
                             SharingStore& store, DType dtype) {
  store.begin(spec.key);
  const BuildContext build{
      .store = store,
      .dtype = dtype,
      .path = spec.key.empty() ? std::string(place) : fmt::format("tied.{}", spec.key),
      .unit = narrow<int>(index)};
  std::unique_ptr<Built> made = spec.build(build);
  if (made == nullptr) {
    throw ConfigError(fmt::format("pipeline module: {} ({}) was not built", place, spec.type));
  }
  return made;
}

void check_sample(std::string_view what, const SampleSpec& sample) {
  const bool is_known = sample.dtype == DType::kF32 || sample.dtype == DType::kI32;
  if (!is_known || sample.shape.rank() == 0 || sample.shape.numel() == 0) {
    throw ConfigError(fmt::format(
        "pipeline module: the {} of a sample is {} {}, expected fp32 or int32 with rows in front",
        what, name_of(sample.dtype), sample.shape.to_string()));
  }
}

void check_parts(const PipelineModuleParts& parts) {
  check_sample("input", parts.input);
  check_sample("label", parts.label);
  if (parts.layers.empty() || !parts.loss.build) {
    throw ConfigError(fmt::format("pipeline module: {} layers and {} loss, expected some and one",
                                  parts.layers.size(), parts.loss.build ? "a" : "no"));
  }
  if (parts.losses_per_sample < 1 || parts.activation_checkpoint_interval < 0) {
    throw ConfigError(fmt::format(
        "pipeline module: losses_per_sample {} and activation_checkpoint_interval {}, expected 1 "
        "and 0 or more",
        parts.losses_per_sample, parts.activation_checkpoint_interval));
  }
  const bool has_order = parts.input.dtype == DType::kI32;
  if (has_order && parts.label.shape.numel() > parts.input.shape.numel()) {
    throw ConfigError(fmt::format(
        "pipeline module: a label of {} elements of {} tokens, expected no more than these",
        parts.label.shape.numel(), parts.input.shape.numel()));
  }
}

}  // namespace

PipelineModule::PipelineModule(PipelineModuleParts parts) : parts_(std::move(parts)) {
  check_parts(parts_);
  look_through();
}

// One sample through all layers, on meta: what they have of parameters, and what shape goes into
// each.
void PipelineModule::look_through() {
  MetaMemory memory;
  ThreadPool pool(1);
  Stream stream({Device::meta(), &memory, &pool, nullptr});
  PlainStore store(stream);
  SharingStore sharing(store, {});
  std::vector<std::unique_ptr<PipelineLayer>> layers;
  for (int64_t i = 0; i < layer_count(); ++i) {
    layers.push_back(
        built(nth(parts_.layers, i), fmt::format("layers.{}", i), i, sharing, parts_.dtype));
    names_.push_back(sharing.take_added());
  }
  built(parts_.loss, "loss", layer_count(), sharing, parts_.dtype);
  names_.back().merge(sharing.take_added());
  store.seal();
  for (ParamId id = 0; id < store.count(); ++id) specs_.push_back(store.spec(id));

  Context context{.stream = stream, .store = &store};
  const DType dtype = parts_.input.dtype == DType::kF32 ? parts_.dtype : parts_.input.dtype;
  LayerInput value{.value = {Tensor::empty(parts_.input.shape, dtype, stream)}, .samples = 1};
  for (int64_t i = 0; i < layer_count(); ++i) {
    shapes_.push_back(value.value.value.shape());
    value.value = nth(layers, i)->forward(context, value);
    const Tensor& given = value.value.value;
    if (!given.defined() || given.dtype() != parts_.dtype || given.shape().rank() == 0) {
      throw ConfigError(
          fmt::format("pipeline module: layer {} ({}) gives {} {}, expected {} with "
                      "rows in front",
                      i, nth(parts_.layers, i).type, name_of(given.dtype()),
                      given.shape().to_string(), name_of(parts_.dtype)));
    }
  }
  shapes_.push_back(value.value.value.shape());
}

std::vector<CutLayer> PipelineModule::cut_layers_of() const {
  std::map<std::string, int64_t> numel;
  for (const ParamSpec& spec : specs_) numel[spec.name] = spec.shape.numel();
  std::vector<CutLayer> layers;
  for (int64_t i = 0; i < layer_count(); ++i) {
    CutLayer& layer = layers.emplace_back();
    layer.type = nth(parts_.layers, i).type;
    for (const std::string& name : nth(names_, i)) layer.parameters += numel.at(name);
  }
  return layers;
}

std::set<std::string> PipelineModule::names_beyond(LayerRange layers) const {
  std::set<std::string> inside, outside, both;
  for (int64_t i = 0; i < layer_count(); ++i) {
    const std::set<std::string>& names = nth(names_, i);
    (layers.has(i) ? inside : outside).insert(names.begin(), names.end());
  }
  std::ranges::set_intersection(inside, outside, std::inserter(both, both.end()));
  return both;
}

std::vector<LayerRange> PipelineModule::cut(std::string_view method, int parts) const {
  const std::vector<LayerRange> ranges = cut_ranges(method, cut_layers_of(), parts);
  for (int part = 1; part + 1 < parts; ++part) {
    const std::set<std::string> names = names_beyond(nth(ranges, part));
    if (names.empty()) continue;
    throw ConfigError(fmt::format(
        "pipeline module: {} is in stage {} of {} and in another one; layers may be tied within a "
        "stage, and between the first and the last: choose fewer stages or another partition",
        *names.begin(), part, parts));
  }
  return ranges;
}

std::unique_ptr<PipelineStage> PipelineModule::make_stage(ParameterStore& store,
                                                          LayerRange layers) const {
  DS_CHECK(0 <= layers.begin && layers.begin < layers.end && layers.end <= layer_count(),
           "pipeline module: layers [{}, {}) of {}", layers.begin, layers.end, layer_count());
  SharingStore sharing(store, names_beyond(layers));
  detail::LayerStage::Parts stage{.module = &parts_,
                                  .is_first = layers.begin == 0,
                                  .in = nth(shapes_, layers.begin),
                                  .out = nth(shapes_, layers.end)};
  for (int64_t i = layers.begin; i < layers.end; ++i) {
    stage.layers.push_back(
        built(nth(parts_.layers, i), fmt::format("layers.{}", i), i, sharing, parts_.dtype));
  }
  if (layers.end == layer_count()) {
    stage.loss = built(parts_.loss, "loss", layer_count(), sharing, parts_.dtype);
  }
  stage.shared = sharing.shared();
  return std::make_unique<detail::LayerStage>(std::move(stage));
}

}  // namespace ds
