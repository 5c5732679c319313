// One ..._model_states.pt of a DeepSpeed checkpoint: which parameters there are, in which order
// their optimizer has them, and the tensors that lie in this file.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/deepspeed/places.h"
#include "checkpoint/deepspeed/progress.h"
#include "checkpoint/deepspeed/saved_fields.h"

namespace ds::deepspeed {

// A tensor by name, or a rank's part of it.
using NamedSaved = std::vector<std::pair<std::string, const TorchTensor*>>;

struct ModelStates {
  ParamGroups groups;              // trained by ZeRO, in flat order; none with stage 0
  std::vector<NamedShape> frozen;  // not trained; their parts are in fragments
  NamedSaved fragments;
  NamedSaved module;              // whole tensors, as the model has them; with stage 3 empty ones
  std::set<std::string> buffers;  // names among them that are no parameters
  std::vector<std::pair<std::string, std::string>> shared;  // name, and whose memory it has
  Progress progress;                                        // what this file knows of it
};

// DataError naming the file and the member that is missing or another than expected; Unsupported
// for what is not read, by its name.
ModelStates model_states_of(const TorchFile& file);

}  // namespace ds::deepspeed
