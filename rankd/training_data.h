// The data of a training run, opened: what large texts are tokenised into is kept in the cache of
// this host, and how far that is goes to the launcher and to the user.
#pragma once

#include <memory>

#include "config/sections/training.h"
#include "data/cache/token_cache.h"
#include "rankd/control/control_client.h"
#include "train/assemble.h"

namespace ds {

struct OpenedData {
  std::unique_ptr<TokenCache> cache;  // null: ids are held in memory
  TrainingData data;
};
// Throws as open_data does.
OpenedData open_training_data(const JobPlan& plan, ControlClient& control, const DataSection& data,
                              const ModelConfig& model, FileSystem& inputs, FileSystem& files);

}  // namespace ds
