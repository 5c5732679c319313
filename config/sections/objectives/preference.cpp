#include "config/sections/objectives/preference.h"

namespace ds {

std::span<const EnumName> names_of(PreferenceLossType) {
  static constexpr EnumName kNames[] = {
      {"sigmoid", static_cast<int>(PreferenceLossType::kSigmoid)},
      {"sigmoid_norm", static_cast<int>(PreferenceLossType::kSigmoidNorm)},
      {"hinge", static_cast<int>(PreferenceLossType::kHinge)},
      {"ipo", static_cast<int>(PreferenceLossType::kIpo)},
      {"exo_pair", static_cast<int>(PreferenceLossType::kExoPair)},
      {"nca_pair", static_cast<int>(PreferenceLossType::kNcaPair)},
      {"robust", static_cast<int>(PreferenceLossType::kRobust)},
      {"bco_pair", static_cast<int>(PreferenceLossType::kBcoPair)},
      {"sppo_hard", static_cast<int>(PreferenceLossType::kSppoHard)},
      {"apo_zero", static_cast<int>(PreferenceLossType::kApoZero)},
      {"apo_down", static_cast<int>(PreferenceLossType::kApoDown)},
      {"discopop", static_cast<int>(PreferenceLossType::kDiscopop)},
      {"orpo", static_cast<int>(PreferenceLossType::kOrpo)},
      {"simpo", static_cast<int>(PreferenceLossType::kSimpo)},
      {"cpo", static_cast<int>(PreferenceLossType::kCpo)},
  };
  return kNames;
}

bool has_reference(PreferenceLossType type) {
  return type != PreferenceLossType::kOrpo && !learns_likelihood(type);
}
bool learns_likelihood(PreferenceLossType type) {
  return type == PreferenceLossType::kCpo || type == PreferenceLossType::kSimpo;
}
bool smooths_labels(PreferenceLossType type) {
  return type == PreferenceLossType::kRobust || type == PreferenceLossType::kExoPair ||
         learns_likelihood(type);
}

void fields(Visitor& v, PreferenceConfig& c) {
  v.field("loss_type", c.loss_type,
          {.meaning = "The loss of a pair, by TRL's names: sigmoid is DPO's (arXiv 2305.18290), "
                      "ipo that of arXiv 2310.12036 over means of tokens, hinge SLiC's, robust "
                      "that of arXiv 2403.00409, and so on. orpo (arXiv 2403.07691), simpo "
                      "(arXiv 2405.14734) and cpo (arXiv 2401.08417) ask no reference, and learn "
                      "the likelihood of the chosen answer beside the preference.",
           .effect = Effect::kUsed});
  v.field("beta", c.beta,
          {.meaning = "How far the model is kept from its reference: the reward of an answer is "
                      "beta * (its log probability - that by the reference). With ipo it is tau, "
                      "with orpo the weight of the preference beside the likelihood (lambda).",
           .effect = Effect::kUsed,
           .above = 0});
  v.field("label_smoothing", c.label_smoothing,
          {.meaning = "How often a pair is thought to be the wrong way round, with loss_type "
                      "robust, exo_pair, cpo or simpo.",
           .effect = Effect::kUsed,
           .min = 0,
           .below = 1});
  v.field("discopop_tau", c.discopop_tau,
          {.meaning = "How fast loss_type discopop goes from one of its two losses to the other.",
           .effect = Effect::kUsed,
           .above = 0});
  v.field("cpo_alpha", c.cpo_alpha,
          {.meaning = "What the likelihood of the chosen answer weighs beside the preference, with "
                      "loss_type cpo or simpo; 0 makes simpo that of its paper.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("simpo_gamma", c.simpo_gamma,
          {.meaning = "By how much the reward of the chosen answer is to be larger, with loss_type "
                      "simpo.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("reference", c.reference,
          {.meaning = "A folder with the weights of the reference, a model of the same kind and "
                      "size. Its log probabilities are computed once, before training, so that it "
                      "takes no memory then.",
           .effect = Effect::kUsed,
           .synonyms = {"ref_model", "model_ref"},
           .unset_meaning =
               "the model as it is before training, with adapters that is what they begin with"});
}

}  // namespace ds
