// A step of a pre-tokenizer that writes, as one of the normalizers.
#pragma once

#include "data/tokenizer/normalize/normalizer.h"
#include "data/tokenizer/split/pre_tokenizer.h"

namespace ds {

// It does to whole texts what the step does to them if it is the first one.
std::unique_ptr<Normalizer> rewriting(std::shared_ptr<const PieceRewrite> rewrite);

}  // namespace ds
