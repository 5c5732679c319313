// Which token comes next (pure): the repetition penalty, then temperature, then the k likeliest,
// then the likeliest that make up the probability p, then those that are likely enough beside the
// likeliest; in the order of Hugging Face's generate, so that equal settings mean the same
// distribution.
//
//   penalty r (Keskar et al., arXiv 1909.05858), for tokens that came before:
//                  l_i <- l_i < 0 ? l_i * r : l_i / r, once, however often the token came
//   temperature T: p_i = exp(l_i / T) / sum_j exp(l_j / T)
//   min-p m (Minh et al., arXiv 2407.01082): i stays where p_i >= m * max_j p_j
//
// Ties: of equally likely tokens the lower id counts as the likelier one, for top-k as for top-p,
// so that exactly k tokens stay where transformers keeps all that tie with the last of them. A
// token whose probability is just m * max p stays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ds {

struct SamplerOptions {
  double temperature = 0.8;       // 0: the likeliest token
  int64_t top_k = 40;             // 0: all
  double top_p = 1;               // 1: all
  double min_p = 0;               // 0: all
  double repetition_penalty = 1;  // 1: none; at temperature 0, too
};

// Confined to one thread: it keeps what it works in.
class TokenSampler {
 public:
  // Ids of `never` are not drawn: those that the model has room for and the tokenizer does not
  // know.
  TokenSampler(const SamplerOptions& options, std::vector<int32_t> never);

  // A token for `uniform` in [0, 1); of equally likely ones the first. `before`: the tokens of the
  // text so far, the prompt's included, that the repetition penalty is for. Logits are overwritten
  // where ids are never drawn or have a penalty. ValidationError if a logit is NaN or none is left.
  int32_t draw(std::span<float> logits, float uniform, std::span<const int32_t> before = {});

 private:
  struct Candidate {
    float logit;
    int32_t id;
  };
  static bool is_before(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }
  void penalize(std::span<float> logits, std::span<const int32_t> before);
  void collect(
      std::span<const float> logits);  // into candidates_, the likeliest first where it matters
  void keep_top_p();                   // of weights_
  void keep_min_p();                   // of weights_, of which the greatest is 1

  SamplerOptions options_;
  std::vector<int32_t> never_;
  std::vector<Candidate> candidates_;
  std::vector<double> weights_;
  std::vector<float> penalized_;
};

}  // namespace ds
