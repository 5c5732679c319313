#include "generate/stage_steps.h"

#include <algorithm>
#include <utility>

#include "core/text/device_name.h"
#include "core/values/index.h"

namespace ds {

namespace {

// Texts that are longer go on from their last tokens.
int64_t most_positions(const GenerationTask& task) {
  int64_t prompt = 1;
  for (const Prompt& one : task.prompts) prompt = std::max(prompt, narrow<int64_t>(one.ids.size()));
  const int64_t most = task.settings.max_tokens;
  return most < task.dims.positions - prompt ? prompt + most : task.dims.positions;
}

// Returns how many alternatives to a token are wanted: no more than there are tokens.
std::optional<int64_t> wanted_logprobs(const GenerationTask& task, const GenerateArgs& args) {
  if (!args.logprobs) return std::nullopt;
  return std::min(*args.logprobs, task.dims.vocabulary);
}

StageSteps::Options all_of(const ModelSource& source, const ModelPlace& place) {
  return {.layers = all_layers(source.model), .slots = 1, .place = place};
}

}  // namespace

StageOrder order_of(const TokenRequest& request) {
  return {.slot = request.slot,
          .fresh = request.fresh,
          .length = narrow<int64_t>(request.tokens.size()),
          .prompt = request.prompt,
          .sample = request.sample,
          .drawn = request.drawn};
}

StageSteps::StageSteps(const ModelSource& source, const GenerationTask& task,
                       const GenerateArgs& args, const Options& options)
    : task_(task),
      dims_(task.dims),
      capacity_(most_positions(task)),
      loaded_(source, options.layers, generation_dtype(source, args), options.place),
      texts_(to_size(options.slots)),
      sampler_(task.settings.sampler, task.never),
      logprobs_(wanted_logprobs(task, args)),
      rng_(args.seed, "generate") {
  for (int slot = 0; slot < options.slots; ++slot) {
    caches_.emplace_back(loaded_.stream(), dims_, loaded_.stage().dtype(),
                         KvCache::Room{1, capacity_}, options.layers);
  }
}

Tensor StageSteps::uploaded(std::span<const int32_t> tokens) {
  Tensor out = Tensor::empty({narrow<int64_t>(tokens.size())}, DType::kI32, stream());
  stream().copy(tokens.data(), out.address(), out.bytes());
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
    input.batch.add(batch_field::kTokens, std::move(in));
  } else {
    input.boundary = {std::move(in), Var::kConstant};
  }
  return input;
}

Tensor StageSteps::forward(const StageOrder& order, Tensor in) {
  Context context = loaded_.context(&nth(caches_, order.slot));
  return loaded_.stage().forward(context, input_of(order, std::move(in))).value;
}

Tensor StageSteps::next_logits(const StageOrder& order, Tensor in) {
  Context context = loaded_.context(&nth(caches_, order.slot));
  return loaded_.stage().next_logits(context, input_of(order, std::move(in)));
}

DrawnToken StageSteps::draw(const StageOrder& order, Tensor in) {
  const Tensor logits = next_logits(order, std::move(in));
  std::vector<float> values(to_size(dims_.vocabulary));
  stream().copy(logits.address(), values.data(), logits.bytes());
  const std::vector<float> own = logprobs_ ? values : std::vector<float>();
  std::vector<int32_t>& before = text_before(order);
  const int32_t token = sampler_.draw(values, uniform_for(order), before);
  before.push_back(token);
  return logprobs_ ? with_logprobs(token, own, *logprobs_, task_.never) : DrawnToken{.id = token};
}

// Each sample has a stream of its own, so that none depends on how many there are; the first has
// that of the prompt.
float StageSteps::uniform_for(const StageOrder& order) const {
  const Rng of_prompt = rng_.derive(static_cast<uint64_t>(order.prompt));
  const Rng rng =
      order.sample == 0 ? of_prompt : of_prompt.derive(static_cast<uint64_t>(order.sample));
  return rng.uniform(static_cast<uint64_t>(order.drawn));
}

std::vector<int32_t>& StageSteps::text_before(const StageOrder& order) {
  std::vector<int32_t>& text = nth(texts_, order.slot);
  if (task_.settings.sampler.repetition_penalty == 1) {
    text.clear();
  } else if (order.drawn == 0) {
    text = nth(task_.prompts, order.prompt).ids;
  }
  return text;
}

// A whole text at once, and the position after it where there is one.
void StageSteps::rehearse() {
  const std::vector<int32_t> tokens(to_size(capacity_));
  const int64_t before = std::max<int64_t>(1, capacity_ - 1);
  next_logits({.fresh = true, .length = before},
              uploaded(std::span(tokens).first(to_size(before))));
  if (capacity_ > before) next_logits({.length = 1}, uploaded(std::span(tokens).first(1)));
}

OneStage::OneStage(const ModelSource& source, const GenerationTask& task, const GenerateArgs& args)
    : device_(device_named(args.device), args.threads,
              [&](const ModelPlace& meta) {
                StageSteps(rehearsal_of(source), task, args, all_of(source, meta)).rehearse();
              }),
      steps_(source, task, args, all_of(source, device_.place())) {}

void OneStage::ask(const TokenRequest& request) {
  token_ = steps_.draw(order_of(request), steps_.uploaded(request.tokens));
}

}  // namespace ds
