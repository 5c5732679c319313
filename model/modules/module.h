// How modules come by their parameters: a BuildContext carries the path of names down the tree of
// modules, so that a parameter's full name is the one Hugging Face gives it. Modules are plain
// objects that keep ParamIds; they run through a Context and hold no weights.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/families/spec/adapters.h"
#include "model/exchange/tensor.h"
#include "model/functions/functions.h"
#include "model/pass/param.h"

namespace ds {

// What this rank has of a parameter.
struct ParamPart {
  std::vector<std::vector<Range>> kept{};  // by axis; none, of an axis: all
  std::vector<Axis> summed{};  // whose ranks have the same, and make a part of its gradient
  std::optional<StoredRows> stored{};
  std::vector<std::string> pieces{};  // as of a ParamSpec
  bool has_adapter = false;           // its module has one
  bool packs = false;                 // as of a ParamSpec
};

struct BuildContext {
  ParameterStore& store;
  DType dtype = DType::kF32;                         // of every parameter
  std::string path;                                  // "transformer.h.0.attn", empty at the root
  int unit = 0;                                      // see ParamSpec::unit
  std::optional<TensorShare> tensor = std::nullopt;  // of each layer; nothing: layers are whole
  // An axis along which another rank has what is added here too, with the same gradient.
  std::optional<Axis> repeated = std::nullopt;
  const AdapterRules* adapters = nullptr;  // null: layers have none, and all of the model trains

  BuildContext child(std::string_view name) const;                 // itself, of an empty name
  BuildContext child(std::string_view name, int64_t index) const;  // "h", 3 -> "h.3"
  BuildContext in_unit(int unit_number) const;
  // What all that share layers have whole is known to be the same.
  ParamId param(std::string_view name, const Shape& shape, Initializer init,
                ModuleKind module = ModuleKind::kOther, ParamPart part = {}) const;
  // Adds the table of an embedding of tokens: [vocabulary, width].
  ParamId table(std::string_view name, const Shape& shape, Initializer init) const;
};

Initializer zeros();
Initializer ones();
Initializer normal(double standard_deviation);
Initializer uniform(double bound);  // between -bound and bound

enum class Bias : uint8_t { kNone, kZeros };

// Which inputs and outputs of a linear layer a rank has; none: all of them.
struct LinearCut {
  std::vector<Range> in{}, out{};
  std::vector<Axis> summed{};  // as of a ParamPart
};
// Outputs of a layer that a folder stores among those of another module.
struct StoredOutputs {
  std::string module;  // its path
  StoredRows rows{};   // without a name
  int layers = 1;      // that are among them
};
// One linear layer named by build.path: `weight` in the layout's shape, `bias` [out] if any, and an
// adapter, if its module has one: that among whose outputs a folder stores the layer's, where it
// does, of which the layers there have one A, and rows of B.
LinearPart linear_part(const BuildContext& build, int64_t in, int64_t out, WeightLayout layout,
                       Bias bias, double standard_deviation, const LinearCut& cut = {},
                       const std::optional<StoredOutputs>& stored = {});
// Alone in its product.
LinearSpec linear_layer(const BuildContext& build, int64_t in, int64_t out, WeightLayout layout,
                        Bias bias, double standard_deviation, const LinearCut& cut = {});

// Elements of queries, of keys (or values), and between the MLP's products that this rank has; none
// where layers are whole.
struct BlockCut {
  std::vector<Range> queries{}, keys{}, inner{};
  std::vector<Axis> keys_summed{};  // of whose gradient other ranks with the same make a part
};
BlockCut block_cut(const BuildContext& build, int64_t head_dim);
std::vector<Range> vocabulary_cut(const BuildContext& build);
// As attention and MLP are computed here.
ModelDimensions dimensions_here(const BuildContext& build, const ModelDimensions& dims);

NormSpec layer_norm_params(const BuildContext& build, int64_t width, double eps,
                           Bias bias = Bias::kZeros);
// The norm begins as one that multiplies by 1.
NormSpec rms_norm_params(const BuildContext& build, int64_t width, double eps,
                         kernels::RmsWeight weight = kernels::RmsWeight::kPlain);
// Returns the axis whose ranks each make a part of the gradient of what they have whole, as of the
// rows that they have; none where all ranks see all rows.
std::vector<Axis> sum_of_rows(const BuildContext& build);
Initializer unit_weight(kernels::RmsWeight weight);

}  // namespace ds
