// Rules of distillation: what it needs, and what it cannot go with.
#include <fmt/format.h>

#include "config/rules.h"
#include "config/sections/split/pipeline.h"
#include "core/status/error.h"

namespace ds::detail {

void distillation_rules(const RuleContext& r) {
  const Config& c = r.config;
  const std::string section = "train.distillation";
  if (!c.train.distillation) return;
  const DistillationConfig& distillation = *c.train.distillation;
  if (distillation.teacher.empty()) {
    r.refuse_early(section + ".teacher", "is empty, expected a folder of Hugging Face");
  }
  try {
    matched_blocks(distillation);
  } catch (const ConfigError& error) {
    r.refuse_early(section + ".layers", error.what());
  }
  const bool has_layers = !distillation.layers.members().empty();
  if (distillation.alpha == 0 && distillation.beta == 0 &&
      !(has_layers && distillation.layers_weight > 0)) {
    r.refuse_early(section, "alpha, beta and layers weigh nothing, so that nothing is learnt");
  }
  if (!has_layers && distillation.layers_weight != DistillationConfig().layers_weight) {
    r.refuse_early(section + ".layers_weight", "is for layers, of which none are given; remove it");
  }
  if (c.data.supervised.has_pairs()) {
    r.refuse_early(section,
                   "excludes data.format preference, whose losses are of pairs and not of tokens; "
                   "remove one of them");
  }
  if (c.data.next_sentence) {
    r.refuse_early(section,
                   "excludes data.next_sentence: a teacher's answers about pairs are not asked "
                   "for; remove one of them");
  }
  if (pipeline_split(c.pipeline).is_cut()) {
    r.refuse_early(section,
                   "excludes pipeline.stages: a teacher is not cut into stages; share its layers "
                   "by tensor_parallel, or shard it by zero_optimization.stage 3");
  }
  if (c.eigenvalue.enabled) {
    r.refuse_early(section, "excludes eigenvalue, which looks at the loss of the text alone");
  }
  if (distillation.until_step && c.zero_optimization.stage == 3) {
    r.refuse_early(section + ".until_step",
                   "excludes zero_optimization.stage 3, whose order of gathers is that of all "
                   "steps; take stage 2, or end this run and go on without a teacher");
  }
}

}  // namespace ds::detail
