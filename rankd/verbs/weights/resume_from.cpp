#include "rankd/verbs/weights/resume_from.h"

#include <fmt/format.h>

#include "config/load.h"
#include "model/families/zoo.h"
#include "train/assemble.h"
#include "train/deepspeed_state.h"

namespace ds {
namespace {

std::string words_of(const DeepSpeedState& state) {
  return fmt::format("step {} of {} ({})", state.step(), state.directory(), state.words());
}

}  // namespace

void require_weights(const std::string& path, const ModelConfig& model, FileSystem& files) {
  DeepSpeedState::open(files, path).fit(model, specs_of_model(model, DType::kF32), {});
}

ContinuationLook look_at_continuation(const Config& config, int ranks, FileSystem& files) {
  DeepSpeedState state = DeepSpeedState::open(files, *config.train.resume_from);
  const ModelConfig model = model_config(config, files);
  const RunToGoOn run = run_to_go_on(engine_options(config, model, ranks),
                                     job_mesh(config, ranks, ranks).data, to_config_text(config));
  ContinuationLook look{.from = words_of(state), .next = continuation_of(state.facts(), run)};
  if (!look.next.refusal.empty()) return look;
  state.fit(model, specs_of_model(model, DType::kF32), run.slots);
  look.left_out = state.left_out();
  return look;
}

std::string resume_words(const std::string& path, FileSystem& files) {
  return words_of(DeepSpeedState::open(files, path));
}

}  // namespace ds
