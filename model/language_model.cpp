#include "model/language_model.h"

namespace ds {

void LanguageModel::backward(Context& context) {
  DS_CHECK(context.tape != nullptr, "backward: the context has no tape");
  context.tape->backward(context.stream);
}

}  // namespace ds
