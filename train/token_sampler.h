// Which token comes next (pure): temperature, then the k likeliest, then the likeliest that make up
// the probability p, in the order of Hugging Face's generate, so that equal settings mean the same
// distribution.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ds {

struct SamplerOptions {
  double temperature = 0.8;  // 0: the likeliest token
  int64_t top_k = 40;        // 0: all
  double top_p = 1;          // 1: all
};

// Confined to one thread: it keeps what it works in.
class TokenSampler {
 public:
  // Ids of `never` are not drawn: those that the model has room for and the tokenizer does not
  // know.
  TokenSampler(const SamplerOptions& options, std::vector<int32_t> never);

  // A token for `uniform` in [0, 1); of equally likely ones the first. The logits of ids that are
  // never drawn are overwritten. ValidationError if a logit is NaN or none is left.
  int32_t draw(std::span<float> logits, float uniform);

 private:
  struct Candidate {
    float logit;
    int32_t id;
  };
  static bool is_before(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }
  void collect(
      std::span<const float> logits);  // into candidates_, the likeliest first where it matters
  void keep_top_p();                   // of weights_

  SamplerOptions options_;
  std::vector<int32_t> never_;
  std::vector<Candidate> candidates_;
  std::vector<double> weights_;
};

}  // namespace ds
