// The checkpoint of DeepSpeed that train.resume_from names, looked at before a run starts: headers
// are read, no elements.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "config/families/list.h"
#include "core/files/file.h"
#include "train/settings/deepspeed_facts.h"

namespace ds {

// Whether its weights are those of the model. Throws as DeepSpeedState does.
void require_weights(const std::string& path, const ModelConfig& model, FileSystem& files);

struct ContinuationLook {
  std::string from;  // in words: "step 3 of /ds/global_step3 (DeepSpeed 0.19.8, ...)"
  Continuation next;
  std::vector<std::string> left_out{};  // tensors that the model has no place for
};
// Whether a run of so many ranks may go on from it. The configuration has to be one that such a run
// can have; throws as DeepSpeedState does.
ContinuationLook look_at_continuation(const Config& config, int ranks, FileSystem& files);

// ContinuationLook::from alone.
std::string resume_words(const std::string& path, FileSystem& files);

}  // namespace ds
