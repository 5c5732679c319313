// A checkpoint of DeepSpeed as the state that an engine goes on from: its fp32 masters and what its
// optimizer keeps, as parameters of ours. Each rank reads the elements that it owns, and no others,
// whatever ranks and stage of ZeRO wrote them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/folder.h"
#include "core/files/file.h"
#include "model/hf/weights.h"
#include "train/engine.h"
#include "train/settings/deepspeed_facts.h"

namespace ds {

class DeepSpeedState {
 public:
  // `path`: as DeepSpeedFolder::open takes it, which also says what is thrown; ConfigError for a
  // checkpoint of ours.
  static DeepSpeedState open(FileSystem& files, const std::string& path);

  const std::string& directory() const { return folder_->directory(); }
  int64_t step() const { return folder_->progress().steps; }
  std::string words() const;  // "DeepSpeed 0.19.8, ZeRO stage 2, 2 ranks"
  // Unsupported where what its optimizer keeps cannot be read.
  DeepSpeedFacts facts() const;

  // Before the first read(). `specs`: those of `model`. DataError listing what of the model is
  // missing, unknown or of another shape, of the weights or of a slot, or naming a tensor that
  // tensor-parallel ranks have otherwise cut than the model is.
  void fit(const ModelConfig& model, std::span<const ParamSpec> specs,
           const std::vector<std::string>& slots);
  // Tensors among the weights that the model has no place for, such as BERT's pooler.
  const std::vector<std::string>& left_out() const;
  // Elements [begin, begin + into.numel()) of parameter `index` of those specs; `slot`:
  // deepspeed::kWeightSlot or one of the slots. `into` is on the CPU.
  void read(size_t index, const std::string& slot, int64_t begin, Tensor& into) const;

 private:
  explicit DeepSpeedState(std::shared_ptr<deepspeed::DeepSpeedFolder> folder)
      : folder_(std::move(folder)) {}
  std::shared_ptr<deepspeed::DeepSpeedFolder> folder_;
  std::map<std::string, HfWeights> tensors_;  // by slot
};

// `data_ranks`: that have samples of their own.
RunToGoOn run_to_go_on(const EngineOptions& options, int64_t data_ranks, std::string config);

// Fills what this rank owns; the state fits the model. Weights have yet to be published from it.
void restore_owned(Engine& engine, const DeepSpeedState& state);

}  // namespace ds
