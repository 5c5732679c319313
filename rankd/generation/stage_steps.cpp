#include "rankd/generation/stage_steps.h"

#include <algorithm>
#include <utility>

#include "core/index.h"

namespace ds {

StageOrder order_of(const TokenRequest& request) {
  return {.slot = request.slot,
          .fresh = request.fresh,
          .length = narrow<int64_t>(request.tokens.size()),
          .prompt = request.prompt,
          .drawn = request.drawn};
}

StageSteps::StageSteps(const ModelSource& source, const GenerationTask& task,
                       const GenerateArgs& args, const Options& options)
    : dims_(task.dims),
      loaded_(source, options.layers, generation_dtype(source, args), options.threads),
      sampler_({.temperature = args.temperature, .top_k = args.top_k, .top_p = args.top_p},
               task.never),
      rng_(args.seed, "generate") {
  for (int slot = 0; slot < options.slots; ++slot) {
    caches_.emplace_back(loaded_.stream(), dims_, loaded_.stage().dtype(), 1, dims_.positions,
                         options.layers);
  }
}

Tensor StageSteps::uploaded(std::span<const int32_t> tokens) {
  Tensor out = Tensor::empty({narrow<int64_t>(tokens.size())}, DType::kI32, stream());
  std::ranges::copy(tokens, out.data<int32_t>());
  return out;
}

Tensor StageSteps::empty_boundary(int64_t length) {
  return Tensor::empty({length, dims_.width}, loaded_.stage().dtype(), stream());
}

StageInput StageSteps::input_of(const StageOrder& order, Tensor in) {
  KvCache& cache = nth(caches_, order.slot);
  if (order.fresh) cache.clear();
  StageInput input{.rows = {.batch = 1, .length = order.length, .positions = cache.length()}};
  if (loaded_.stage().is_first()) {
    input.tokens = std::move(in);
  } else {
    input.boundary = {std::move(in), Var::kConstant};
  }
  return input;
}

Tensor StageSteps::forward(const StageOrder& order, Tensor in) {
  Context context = loaded_.context(&nth(caches_, order.slot));
  return loaded_.stage().forward(context, input_of(order, std::move(in))).value;
}

int32_t StageSteps::draw(const StageOrder& order, Tensor in) {
  Context context = loaded_.context(&nth(caches_, order.slot));
  Tensor logits = loaded_.stage().next_logits(context, input_of(order, std::move(in)));
  const Rng of_prompt = rng_.derive(static_cast<uint64_t>(order.prompt));
  return sampler_.draw({logits.data<float>(), to_size(dims_.vocabulary)},
                       of_prompt.uniform(static_cast<uint64_t>(order.drawn)));
}

OneStage::OneStage(const ModelSource& source, const GenerationTask& task, const GenerateArgs& args)
    : steps_(source, task, args,
             {.layers = all_layers(source.model), .slots = 1, .threads = args.threads}) {}

void OneStage::ask(const TokenRequest& request) {
  token_ = steps_.draw(order_of(request), steps_.uploaded(request.tokens));
}

}  // namespace ds
