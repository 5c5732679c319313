// The tokens of one example of supervised fine-tuning, and which of them a model learns to say.
#pragma once

#include <cstdint>
#include <vector>

namespace ds {

struct SupervisedTokens {
  std::vector<int32_t> ids;
  std::vector<uint8_t> loss_mask;  // as many: 1 where the token is a target
};

}  // namespace ds
