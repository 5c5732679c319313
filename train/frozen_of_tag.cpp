#include "train/frozen_of_tag.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/families/zoo.h"
#include "model/hf/weights_fingerprint.h"
#include "train/engine_pieces.h"
#include "train/settings/resume_facts.h"

namespace ds {

FrozenOfTag::FrozenOfTag(FileSystem& files, const CheckpointReader& reader,
                         const ModelConfig& model, const Place& place)
    : specs_(specs_of_model(model, DType::kF32)) {
  if (!lacks_frozen(reader, specs_)) return;
  if (!place.folder || !has_hf_weights(files, *place.folder)) {
    throw InputMissing(fmt::format(
        "{}: it has what trained alone (checkpoint.exclude_frozen_parameters), and the weights "
        "beside it are those of model.folder, {}, where there are none; put the folder back",
        place.tag, place.folder.value_or("which the run does not name")));
  }
  const std::string known =
      reader.has_state(kFactsState) ? parse_facts(reader.state(kFactsState)).base : std::string();
  if (!known.empty() && fingerprint_of_weights(files, *place.folder) != known) {
    throw ValidationError(fmt::format(
        "{}: its adapters were trained beside other weights than those that {} has now; put these "
        "back",
        place.tag, *place.folder));
  }
  weights_.emplace(files, *place.folder, specs_, absent_modules(model));
}

size_t FrozenOfTag::index_of(const std::string& parameter) const {
  const auto found = std::ranges::find(specs_, parameter, &ParamSpec::name);
  DS_CHECK(found != specs_.end(), "{} is no parameter of the model", parameter);
  return static_cast<size_t>(found - specs_.begin());
}

bool FrozenOfTag::has(const std::string& parameter) const {
  return weights_ && !specs_[index_of(parameter)].trains;
}

void FrozenOfTag::read(const std::string& parameter, int64_t begin, Tensor& range) const {
  weights_->read(index_of(parameter), begin, range);
}

}  // namespace ds
