#include "rankd/verbs/weights/folder_look.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "core/status/error.h"
#include "core/values/count_text.h"
#include "model/families/zoo.h"

namespace ds {

bool ModelFolderLook::attempt(const char* part, const std::function<void()>& what) {
  try {
    what();
    return true;
  } catch (const Error& error) {
    add_problem(part, error.what());
    return false;
  }
}

std::string model_text(const ModelConfig& model) {
  const std::optional<ExpertsSpec> experts = transformer_spec(model).experts;
  int64_t parameters = 0, of_a_token = 0;
  for (const ParamSpec& spec : specs_of_model(model, DType::kF32)) {
    const int64_t numel = spec.logical_shape().numel();
    parameters += numel;
    const bool is_chosen = !spec.pieces.empty() && spec.logical_shape()[0] == experts->count;
    of_a_token += is_chosen ? numel / experts->count * experts->choices : numel;
  }
  const ModelDimensions dims = dimensions(model);
  std::string text = fmt::format(
      "{} ({}): {} layers of width {}, {} heads, {} positions, {} tokens; {} parameters",
      hf_model_class(model), family_name(model), dims.layers, dims.width, dims.heads,
      dims.positions, dims.vocabulary, count_text(parameters));
  if (!experts) return text;
  return text + fmt::format(", of which each token uses {} ({} of {} experts)",
                            count_text(of_a_token), experts->choices, experts->count);
}

std::string stored_text(const WeightFolder& weights) {
  std::map<std::string, int64_t> by_type;
  int64_t bytes = 0;
  for (const std::string& name : weights.names()) {
    const SafetensorsInfo& info = weights.info(name);
    ++by_type[info.dtype_name];
    bytes += info.bytes;
  }
  std::vector<std::string> types;
  for (const auto& [type, count] : by_type) types.push_back(fmt::format("{} {}", count, type));
  return fmt::format("{} tensors ({}), {}", weights.names().size(), fmt::join(types, ", "),
                     size_text(bytes));
}

}  // namespace ds
