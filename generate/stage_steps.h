// Some layers of a model at work on several texts, of each of which it keeps the keys and values;
// and, where the last layer is among them, the drawing of what comes next.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/values/rng.h"
#include "generate/next_tokens.h"
#include "generate/task.h"
#include "model/pass/kv_cache.h"
#include "train/evaluate/token_sampler.h"
#include "train/model_source.h"

namespace ds {

// A request without its tokens, which only the first stage has.
struct StageOrder {
  int slot = 0;
  bool fresh = false;
  int64_t length = 0;  // positions
  int64_t prompt = 0;
  int64_t sample = 0;
  int64_t drawn = 0;
};
StageOrder order_of(const TokenRequest& request);

class StageSteps {
 public:
  struct Options {
    LayerRange layers{};
    int slots = 1;
    ModelPlace place{};
  };
  // Loads what these layers have. `task` and `args` outlive it.
  StageSteps(const ModelSource& source, const GenerationTask& task, const GenerateArgs& args,
             const Options& options);

  Stream& stream() { return loaded_.stream(); }
  // Returns the tokens as the input of the first stage.
  Tensor uploaded(std::span<const int32_t> tokens);  // int32 [length]
  // What goes from stage to stage: [length, width].
  Tensor empty_boundary(int64_t length);

  // `in`: tokens on the first stage, a boundary on the others.
  Tensor forward(const StageOrder& order, Tensor in);   // the boundary; not on the last stage
  DrawnToken draw(const StageOrder& order, Tensor in);  // what comes next; on the last stage
  // How many alternatives to a token have their log-probabilities told; nothing where none are
  // wanted, not even the token's own.
  std::optional<int64_t> logprobs() const { return logprobs_; }
  // On meta: all that the longest of the texts will take.
  void rehearse();

 private:
  StageInput input_of(const StageOrder& order, Tensor in);
  Tensor next_logits(const StageOrder& order, Tensor in);  // fp32 [vocabulary]
  float uniform_for(const StageOrder& order) const;
  // The tokens of the text so far, which the last stage knows since it drew them; none where no
  // setting asks for them.
  std::vector<int32_t>& text_before(const StageOrder& order);

  const GenerationTask& task_;
  const ModelDimensions dims_;
  const int64_t capacity_;  // positions of a text at most
  LoadedStage loaded_;
  std::vector<KvCache> caches_;              // by slot
  std::vector<std::vector<int32_t>> texts_;  // by slot: text_before()
  TokenSampler sampler_;
  const std::optional<int64_t> logprobs_;
  const Rng rng_;
};

// The whole model in this process: one text at a time.
class OneStage final : public NextTokens {
 public:
  OneStage(const ModelSource& source, const GenerationTask& task, const GenerateArgs& args);
  int slots() const override { return 1; }
  void ask(const TokenRequest& request) override;
  DrawnToken answer() override { return std::move(token_); }

 private:
  const ModelDevice device_;
  StageSteps steps_;
  DrawnToken token_;
};

}  // namespace ds
