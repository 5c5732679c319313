#include "config/families/gemma/gemma_like.h"

#include "config/families/spec/hf_object.h"

namespace ds {

void gemma_like::refuse_others(const HfObject& object) {
  object.refuse_unless("use_bidirectional_attention", false);
  if (object.is_null("sliding_window")) object.refuse("a \"sliding_window\" that is null");
}

}  // namespace ds
