// Weights of a Hugging Face folder as parameters of ours: which stored tensor each parameter is,
// with every name, shape and dtype checked before the first byte is read; then any flat range of
// any parameter, so that a rank reads only the bytes it owns.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "config/families/list.h"
#include "core/device/tensor.h"
#include "model/hf/safetensors.h"
#include "model/hf/weight_folder.h"
#include "model/pass/param.h"

namespace ds {

// The model of a folder: its config.json, whose number of layers is compared with the headers of
// the weights beside it before anybody builds a table of parameters by it. A folder without weights
// is its config.json alone. DataError where they differ; else as read_hf_config and
// WeightFolder::open throw.
ModelConfig read_hf_model(FileSystem& file_system, const std::string& folder,
                          const WantedClasses& wanted = {});

bool has_hf_weights(FileSystem& file_system, const std::string& folder);

// Modules that a folder may be without, such as a head that begins anew; then heads of other tasks
// are passed over.
using AbsentModules = std::vector<std::string>;
// Those of a head that begins anew.
AbsentModules absent_modules(const ModelConfig& config);

// What a folder may be without: the head, if its class has none, these modules, and adapters.
struct NewHead {
  std::string headless{};  // the class; empty: it has one
  AbsentModules modules{};
  bool is_without_adapters = true;
};

class HfWeights {
 public:
  // `specs`: every parameter of the model (make_model), in order. Stored names may lack the leading
  // "transformer." or "model." (exports of the headless model), or the first word of two. Stored
  // but ignored: buffers that old exports carry (attention masks, rotary frequencies), left_out(),
  // and lm_head.weight where it is tied and equal to the embeddings. Adapters are stored elsewhere,
  // as a rule. DataError lists what is missing, has another shape, or is stored and unknown.
  HfWeights(FileSystem& file_system, const std::string& folder, std::span<const ParamSpec> specs,
            AbsentModules absent = {});
  // The same of tensors that are open; `path` is their name in messages.
  HfWeights(WeightFolder tensors, std::string path, std::span<const ParamSpec> specs,
            NewHead head = {});

  // Fills `range` (flat, on CPU; fp32, bf16 or fp16) with elements [begin, begin + range.numel())
  // of parameter `index` of `specs`, converted from the stored dtype; of one that is cut, elements
  // of what is here, and no others are read. The parameter is stored. DataError where these are
  // tied embeddings and the stored lm_head.weight has other values there. Thread-safe.
  void read(size_t index, int64_t begin, Tensor& range) const;
  // The folder's own name for parameter `index`; empty, if it is fresh.
  const std::string& stored_name(size_t index) const { return places_[index].name; }
  // Stored tensors of heads that models for masked tokens do not have, such as BERT's pooler.
  const std::vector<std::string>& left_out() const { return left_out_; }
  // Parameters of a new head that the folder does not have, which whoever trains it makes anew.
  const std::vector<std::string>& fresh() const { return fresh_; }
  bool is_stored(size_t index) const { return !places_[index].name.empty(); }
  // The parameter that a head's weight, stored besides, has to be equal to, if there is one:
  // reading all of it compares them.
  std::optional<size_t> tied_embeddings() const { return tied_embeddings_; }
  const std::string& headless() const { return headless_; }
  // Bytes of the stored tensors that parameters come from.
  int64_t bytes() const;

 private:
  // The place of a parameter: elements of the stored tensor of that name.
  struct Place {
    std::string name;  // empty: none has it
    Cut cut{};         // what of the parameter is here
    Shape whole{};     // the parameter as a whole
    std::optional<StoredRows> rows{};
    std::vector<std::string> pieces{};  // instead: equal tensors, one after the other
  };
  Place piecewise(const ParamSpec& spec, const std::set<std::string>& present,
                  std::vector<std::string>& missing) const;
  void read_pieces(const Place& place, std::span<const Run> runs, Tensor& range) const;
  std::vector<Run> stored_runs(const Place& place, const Range& range) const;
  void read_runs(const std::string& name, std::span<const Run> runs, Tensor& range) const;
  void read_stored(const std::string& name, int64_t begin, Tensor& range) const;
  void compare_tied_head(std::span<const Run> runs, const Tensor& range) const;

  std::string path_;
  WeightFolder folder_;
  std::vector<Place> places_;  // by parameter
  std::optional<size_t>
      tied_embeddings_;    // the parameter of which a head's weight is stored besides
  std::string tied_head_;  // its name
  std::vector<std::string> left_out_, fresh_;
  std::string headless_;  // the class, or empty
};

// The name of a parameter in a folder that stores these names: its own, or that without the body's
// prefix.
std::string stored_name_of(const std::string& parameter, const std::set<std::string>& stored);

std::vector<ParamSpec> specs_of(const ParameterStore& store);

// A tensor of a folder, and the parameters that its rows are of: one, or several that it joins; or
// a piece of one, from its element `begin` on.
struct ExportTensor {
  SafetensorsTensor tensor;
  std::vector<const ParamSpec*> parts{};
  int64_t begin = 0;
};
// What a folder for export holds, by names, shapes and `dtype`. A tied head is left out, as
// transformers does. `specs` outlive it.
std::vector<ExportTensor> export_list(std::span<const ParamSpec> specs, DType dtype);
// Puts a part into the whole tensor, whose rows are as wide: `from` has all of the parameter.
void place_rows(const ParamSpec& spec, std::span<const float> from, std::span<float> whole);

}  // namespace ds
