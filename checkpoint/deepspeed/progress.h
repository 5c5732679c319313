// How far a run of DeepSpeed had come: what its checkpoint says beside tensors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace ds::deepspeed {

// DynamicLossScaler of DeepSpeed, or LossScaler, whose scale stays.
struct SavedScaler {
  bool is_dynamic = false;
  double scale = 1;
  int64_t iterations = 0;               // updates of the scale
  int64_t last_overflow = -1;           // the iteration of it; -1: none
  std::optional<int64_t> hysteresis{};  // overflows that are left before the scale goes down
  friend bool operator==(const SavedScaler&, const SavedScaler&) = default;
};

struct Progress {
  int64_t steps = 0;                         // global_steps
  int64_t skipped = 0;                       // of those: because gradients overflowed
  int64_t samples = 0;                       // consumed, of the whole batch of each step
  std::optional<int64_t> updates{};          // of the optimizer; empty where it does not count
  std::optional<int64_t> scheduler_steps{};  // last_batch_iteration + 1; empty without a scheduler
  std::optional<double> rate{};              // of the next update, where all groups have the same
  std::optional<SavedScaler> scaler{};       // empty without fp16
  std::string version;                       // of DeepSpeed
  int64_t stage = 0;                         // of ZeRO; for a universal folder 0
  int64_t data_ranks = 1;
  int64_t tensor_ranks = 1;  // that have a part of each layer
  // The optimizer and the scheduler of ds_config, by the path of each key ("optimizer.params.lr"),
  // values in words: "AdamW", "0.01", "true", "[0.9, 0.95]". Empty where the file has none.
  std::map<std::string, std::string> settings{};
};

}  // namespace ds::deepspeed
