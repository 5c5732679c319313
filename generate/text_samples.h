// What a model that is being trained goes on with after a prompt, whenever it is evaluated: a line
// for people, who see by it what a loss does not tell. Rank 0 draws, and the others compute with
// it, since each may have a part of the weights. What is drawn follows from the seed and the step
// alone.
#pragma once

#include <optional>
#include <string>

#include "core/files/file.h"
#include "core/values/rng.h"
#include "generate/task.h"
#include "train/engine.h"
#include "train/evaluate/evaluation.h"
#include "train/evaluate/token_sampler.h"
#include "train/settings/run_reports.h"

namespace ds {

class TextSamples {
 public:
  struct Options {
    std::string prompt;
    std::string tokenizer;              // in the words of make_tokenizer
    std::optional<std::string> folder;  // Hugging Face's, that may say which tokens end texts
    EvaluationSchedule schedule{};
  };
  // The engine's options say how long texts are. ConfigError for a prompt of no token or of so many
  // that nothing can follow; what task_of() throws.
  TextSamples(Engine& engine, RunReports& reports, FileSystem& files, const Options& options);

  bool due(int64_t steps_done) const { return schedule_.due(steps_done); }
  // Collective. What cannot be drawn, as of logits that are no numbers, is said in the text's
  // place.
  void after(int64_t steps_done);

 private:
  static constexpr int32_t kEnd = -1;  // a token that says that the text is done

  std::string draw_text(int64_t steps_done);
  void serve(int64_t steps_done);
  Tensor compute(int64_t steps_done, int32_t token, KvCache& cache);

  Engine& engine_;
  RunReports& reports_;
  const EvaluationSchedule schedule_;
  const Rng rng_;
  const GenerationTask task_;
  TokenSampler sampler_;
};

}  // namespace ds
