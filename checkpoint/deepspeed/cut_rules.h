// How the parameters of a DeepSpeed checkpoint are cut over tensor-parallel ranks, as its files say
// it: in universal_checkpoint_info, as patterns of names, or, without that, by names that are those
// of Megatron-LM.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/cuts/tensor_join.h"
#include "checkpoint/deepspeed/saved_fields.h"
#include "core/text/name_pattern.h"

namespace ds::deepspeed {

// Reading is confined to one thread, as patterns are.
class CutRules {
 public:
  // Nothing where the file of a model has no universal_checkpoint_info. DataError, naming the file
  // and the member, for what is of another kind than it should be.
  static std::optional<CutRules> of(const SavedFields& model);

  // That of a name that no pattern fits is a cut along the first axis, as DeepSpeed's converter has
  // it. Unsupported for parameters that DeepSpeed says it cannot describe.
  CutRule of(const std::string& name) const;

 private:
  using Patterns = std::vector<NamePattern>;
  struct SubParameters {
    Patterns patterns;
    CutRule rule;
  };
  CutRules() = default;
  void add_sub_parameters(const SavedFields& info);

  Patterns same_, mean_, pairs_, by_rows_, vocabulary_;
  std::vector<std::pair<NamePattern, std::string>> unknown_;  // and why
  std::vector<SubParameters> sub_parameters_;
  std::optional<int64_t> words_;
  std::string path_;
};

struct MegatronFacts {
  double version = 0;     // checkpoint_version, by which each rank orders query_key_value
  bool is_gated = false;  // dense_h_to_4h has the gate before what is gated
};
// Whether a parameter of this name is Megatron-LM's: all of its model's are then.
bool tells_of_megatron(std::string_view name);
// How Megatron-LM cuts what it calls so.
CutRule megatron_rule(std::string_view name, const MegatronFacts& facts);

}  // namespace ds::deepspeed
