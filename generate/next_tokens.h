// The model as generation sees it: tokens in, the next token out, for several texts at once.
#pragma once

#include <cstdint>
#include <span>

#include "generate/logprobs.h"

namespace ds {

struct TokenRequest {
  int slot = 0;                     // whose keys and values go on
  bool fresh = false;               // and begin anew
  int64_t prompt = 0;               // what is drawn follows from these three and the seed
  int64_t sample = 0;               // of the prompt
  int64_t drawn = 0;                // tokens before this one
  std::span<const int32_t> tokens;  // that the slot has not seen yet
};

class NextTokens {
 public:
  virtual ~NextTokens() = default;
  virtual int slots() const = 0;
  // At most one request per slot is not answered. Thrown is what computing throws, CommError for
  // a lost rank, and ValidationError for logits that are no numbers.
  virtual void ask(const TokenRequest& request) = 0;
  virtual DrawnToken answer() = 0;  // of the oldest request that has none
};

}  // namespace ds
