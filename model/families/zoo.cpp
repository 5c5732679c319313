#include "model/families/zoo.h"

#include <utility>

#include "core/values/index.h"
#include "model/families/transformer_parts.h"
#include "model/modules/whole_model.h"

namespace ds {
namespace {

// Has the parameters' specs and no bytes: enough to build a stage that never runs.
class SpecList final : public ParameterStore {
 public:
  ParamId add(ParamSpec spec) override {
    specs_.push_back(std::move(spec));
    return count() - 1;
  }
  void seal() override {}
  int count() const override { return narrow<int>(specs_.size()); }
  const ParamSpec& spec(ParamId id) const override { return nth(specs_, id); }
  Lease acquire(ParamId) override { throw InternalError("acquire: a list of specs has no bytes"); }
  GradSlot grad_slot(ParamId) override {
    throw InternalError("grad_slot: a list of specs has no bytes");
  }
  void grad_ready(ParamId) override {}
  void expect_uses(ParamId, int) override {}
  std::vector<ParamSpec> take() { return std::move(specs_); }

 private:
  std::vector<ParamSpec> specs_;
};

}  // namespace

std::unique_ptr<LanguageModel> make_model(const ModelConfig& config, DType dtype,
                                          ParameterStore& store) {
  check(config);
  return std::make_unique<WholeModel>(make_stage(config, dtype, store, all_layers(config)));
}

std::unique_ptr<Stage> make_stage(const ModelConfig& config, DType dtype, ParameterStore& store,
                                  LayerRange layers, const StageRules& rules,
                                  const TensorPlace& tensor) {
  check(config);
  const int64_t count = all_layers(config).end;
  DS_CHECK(0 <= layers.begin && layers.begin < layers.end && layers.end <= count,
           "make_stage: layers [{}, {}) of {}", layers.begin, layers.end, count);
  DS_CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16,
           "make_stage: weights of {}", name_of(dtype));
  BuildContext root{.store = store, .dtype = dtype, .path = "", .unit = 0};
  if (tensor.is_shared()) root.tensor = tensor_share(config, tensor);
  std::optional<AdapterRules> adapters;
  if (config.adapters) root.adapters = &adapters.emplace(*config.adapters);
  return std::make_unique<Stage>(transformer_parts(config, root, layers), rules);
}

std::vector<ParamSpec> specs_of_model(const ModelConfig& config, DType dtype,
                                      const TensorPlace& tensor) {
  SpecList specs;
  make_stage(config, dtype, specs, all_layers(config), {}, tensor);
  return specs.take();
}

std::vector<CutLayer> layers_of(const ModelConfig& config) {
  const int64_t count = all_layers(config).end;
  std::vector<CutLayer> layers;
  for (int64_t layer = 0; layer < count; ++layer) {
    SpecList specs;
    make_stage(config, DType::kF32, specs, {layer, layer + 1});
    CutLayer& added = layers.emplace_back();
    added.type = layer == 0           ? "Embedding"
                 : layer == count - 1 ? "Head"
                                      : std::string(hf_classes(config).block);
    for (ParamId id = 0; id < specs.count(); ++id) {
      added.parameters += specs.spec(id).shape.numel();
    }
  }
  return layers;
}

std::vector<LayerRange> cut_model(const ModelConfig& config, std::string_view method, int parts) {
  std::vector<CutLayer> layers = layers_of(config);
  if (is_best(method)) layers.front().parameters = 0;  // rows are looked up
  return cut_ranges(method, layers, parts);
}

}  // namespace ds
