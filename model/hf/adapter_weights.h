// Weights of a model and of adapters beside it, as HfWeights has those of a model: the adapters in
// adapter_model.safetensors, or .bin, in which peft puts "base_model.model." before names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "model/hf/weights.h"
#include "model/pass/param.h"

namespace ds {

// The name of a parameter in such a file. has_adapter: its module has one.
std::string adapter_file_name(const std::string& parameter, bool has_adapter);

class AdaptedWeights {
 public:
  // `base`: the folder of the model. `specs`: of the whole model with its adapters, in order.
  // `adapters`: the folder that has what of them trains; none: adapters are nowhere. DataError as
  // HfWeights throws, of either.
  AdaptedWeights(FileSystem& files, const std::string& base, std::span<const ParamSpec> specs,
                 AbsentModules absent, const std::optional<std::string>& adapters);

  bool is_stored(size_t index) const {
    return places_[index] != kNowhere || base_->is_stored(index);
  }
  // As HfWeights::read().
  void read(size_t index, int64_t begin, Tensor& range) const;
  const HfWeights& base() const { return *base_; }

 private:
  static constexpr size_t kNowhere = SIZE_MAX;
  std::vector<size_t> places_;  // of each spec, among those of adapters_
  std::optional<HfWeights> base_, adapters_;
};

}  // namespace ds
