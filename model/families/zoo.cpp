#include "model/families/zoo.h"

#include "model/families/gpt.h"
#include "model/families/llama.h"

namespace ds {
namespace {

struct Maker {
  const BuildContext& root;
  std::unique_ptr<LanguageModel> operator()(const Gpt2Config& c) const {
    return make_gpt2(c, root);
  }
  std::unique_ptr<LanguageModel> operator()(const LlamaConfig& c) const {
    return make_llama(c, root);
  }
};

}  // namespace

std::unique_ptr<LanguageModel> make_model(const ModelConfig& config, DType dtype,
                                          ParameterStore& store) {
  check(config);
  DS_CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16,
           "make_model: weights of {}", name_of(dtype));
  const BuildContext root{.store = store, .dtype = dtype, .path = "", .unit = 0};
  return std::visit(Maker{root}, config);
}

}  // namespace ds
