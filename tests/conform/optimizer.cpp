// Area optimizer: optim/ (Adam through the engine's own optimizer on borrowed tensors), token-bound
// batches of data/ and the block list of model/.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "comm/meta_comm.h"
#include "core/memory/resource.h"
#include "core/tasks/thread_pool.h"
#include "data/efficiency/token_batches.h"
#include "optim/batch_lr.h"
#include "optim/clip.h"
#include "optim/rule_optimizer.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"
#include "tests/conform/kv_block_list.h"
#include "tests/support/ranks.h"

namespace ds::conform {
namespace {

using Floats = std::vector<float>;

std::array<double, 2> betas_of(const Json& hyper) {
  const Json* betas = find(hyper, "betas");
  if (!betas) return {0.9, 0.999};
  return {as<double>(array(*betas)[0]), as<double>(array(*betas)[1])};
}

OptimizerConfig config_of(const std::string& name, const Json& hyper) {
  const double decay = get_or(hyper, "weight_decay", 0.0);
  OptimizerConfig config;
  if (name == "Adam" || name == "AdamW") {
    config.type = OptimizerType::kAdamW;
    config.adam = {.betas = betas_of(hyper),
                   .eps = get_or(hyper, "eps", 1e-8),
                   .weight_decay = decay,
                   .bias_correction = get_or(hyper, "bias_correction", true)};
  } else if (name == "Lion") {
    config.type = OptimizerType::kLion;
    config.lion = {.betas = betas_of(hyper), .weight_decay = decay};
  } else if (name == "Adagrad") {
    config.type = OptimizerType::kAdagrad;
    config.adagrad = {.eps = get_or(hyper, "eps", 1e-10), .weight_decay = decay};
  } else if (name == "SGD") {
    config.type = OptimizerType::kSgd;
    config.sgd = {.momentum = get_or(hyper, "momentum", 0.0),
                  .dampening = get_or(hyper, "dampening", 0.0),
                  .weight_decay = decay,
                  .nesterov = get_or(hyper, "nesterov", false)};
  } else {
    throw std::invalid_argument("name: " + name);
  }
  return config;
}

std::unique_ptr<Optimizer> optimizer_of(const std::string& name, const Json& hyper) {
  const OptimizerConfig config = config_of(name, hyper);
  if (name == "Adam") return make_adam(config.adam, kernels::WeightDecay::kL2);
  return make_optimizer(config);
}

// An optimizer over tensors that borrow the vectors.
class OptimizerSteps {
 public:
  OptimizerSteps(std::unique_ptr<Optimizer> optimizer, std::vector<Floats>& weights,
                 Communicator* ranks = nullptr)
      : optimizer_(std::move(optimizer)), ranks_(ranks != nullptr ? *ranks : alone_) {
    for (Floats& weight : weights) {
      Shard& shard = shards_.emplace_back();
      const int64_t numel = static_cast<int64_t>(weight.size());
      shard.master = borrow(weight);
      shard.fields = {{.param = static_cast<int>(shards_.size()) - 1, .numel = numel}};
      for (size_t i = 0; i < optimizer_->slots().size(); ++i) {
        shard.slots.push_back(Tensor::zeros({numel}, DType::kF32, stream_));
      }
    }
    for (const AuxiliarySpec& spec : optimizer_->auxiliary_of(shards_, ranks_.size())) {
      auxiliary_.push_back(Tensor::zeros({spec.numel}, DType::kF32, stream_));
    }
  }
  // Each gradient is that of one tensor.
  void step(std::vector<Floats>& grads, int64_t step, double lr) {
    for (size_t i = 0; i < grads.size(); ++i) shards_[i].grad = borrow(grads[i]);
    scalars_.upload(optimizer_->inputs({.lr = lr}, step), 0);
    UpdateGroup group(ranks_);
    group.auxiliary = auxiliary_;
    group.number.update = step;
    optimizer_->step(shards_, scalars_, group, stream_);
  }
  GradientsOf gradients_at(int64_t step) const { return optimizer_->gradients_at(step); }
  const std::vector<Tensor>& auxiliary() const { return auxiliary_; }

 private:
  static Tensor borrow(Floats& values) {
    return Tensor::borrow(values.data(), Shape{static_cast<int64_t>(values.size())}, DType::kF32);
  }

  HostMemory memory_;
  ThreadPool pool_{1};
  Stream stream_{{.memory = &memory_, .pool = &pool_}};
  MetaComm alone_{0, 1};
  StepScalars scalars_{1, stream_};
  std::unique_ptr<Optimizer> optimizer_;
  Communicator& ranks_;
  std::vector<Shard> shards_;
  std::vector<Tensor> auxiliary_;
};

std::string steps(const Json& input) {
  const std::string name = get<std::string>(input, "name");
  const Json& hyper = need(input, "hyper");
  std::vector<Floats> weights{list<float>(need(input, "param"))};
  const Json* rates = find(input, "lr_per_step");
  OptimizerSteps optimizer(optimizer_of(name, hyper), weights);
  std::vector<Floats> after;
  int64_t step = 0;
  for (const Json& given : array(need(input, "grads")).GetArray()) {
    std::vector<Floats> grads{list<float>(given)};
    const double lr =
        rates ? as<double>(array(*rates)[static_cast<unsigned>(step)]) : get<double>(hyper, "lr");
    ++step;
    optimizer.step(grads, step, lr);
    after.push_back(weights[0]);
  }
  return Answer().add("params", after).text();
}

template <class Params>
Params onebit_params(const Json& hyper) {
  Params params;
  params.lr = get<double>(hyper, "lr");
  params.betas = betas_of(hyper);
  params.eps = get_or(hyper, "eps", params.eps);
  params.weight_decay = get_or(hyper, "weight_decay", params.weight_decay);
  params.freeze_step = get_or(hyper, "freeze_step", params.freeze_step);
  return params;
}

void average(std::vector<Floats>& grads) {
  Floats mean(grads[0].size());
  for (const Floats& grad : grads) {
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += grad[i];
  }
  for (float& value : mean) value /= static_cast<float>(grads.size());
  for (Floats& grad : grads) grad = mean;
}

// One rank's steps; returns its weights after each.
std::vector<Floats> onebit_rank(const OptimizerConfig& config, const Json& input,
                                Communicator& comm) {
  std::vector<Floats> weights{list<float>(need(input, "param"))}, after;
  OptimizerSteps optimizer(make_optimizer(config), weights, &comm);
  int64_t number = 0;
  for (const Json& step : array(need(input, "grads")).GetArray()) {
    std::vector<Floats> grads;
    for (const Json& grad : array(step).GetArray()) grads.push_back(list<float>(grad));
    if (optimizer.gradients_at(++number) == GradientsOf::kAllRanks) average(grads);
    std::vector<Floats> mine{grads.at(static_cast<size_t>(comm.rank()))};
    optimizer.step(mine, number, learning_rate(config));
    after.push_back(weights[0]);
  }
  return after;
}

std::string onebit_adam(const Json& input) {
  const OptimizerConfig config{
      .type = OptimizerType::kOneBitAdam,
      .onebit_adam = onebit_params<OneBitAdamParams>(need(input, "hyper"))};
  const Json& given = array(need(input, "grads"));
  const int ranks = given.Empty() ? 1 : static_cast<int>(array(given[0]).Size());
  std::vector<Floats> after;
  test::run_ranks(ranks, [&](Communicator& comm) {
    std::vector<Floats> mine = onebit_rank(config, input, comm);
    if (comm.rank() == 0) after = std::move(mine);
  });
  return Answer().add("params", after).text();
}

std::string onebit_lamb(const Json& input) {
  const Json& hyper = need(input, "hyper");
  auto params = onebit_params<OneBitLambParams>(hyper);
  params.max_coeff = get_or(hyper, "max_coeff", params.max_coeff);
  params.min_coeff = get_or(hyper, "min_coeff", params.min_coeff);
  params.coeff_beta = get_or(hyper, "coeff_beta", params.coeff_beta);
  params.factor_max = get_or(hyper, "factor_max", params.factor_max);
  params.factor_min = get_or(hyper, "factor_min", params.factor_min);
  params.factor_threshold = get_or(hyper, "factor_threshold", params.factor_threshold);
  std::vector<Floats> weights;
  for (const Json& param : array(need(input, "params")).GetArray()) {
    weights.push_back(list<float>(param));
  }
  OptimizerSteps lamb(make_optimizer({.type = OptimizerType::kOneBitLamb, .onebit_lamb = params}),
                      weights);
  std::vector<std::vector<Floats>> after;
  std::vector<std::vector<double>> coefficients;
  int64_t number = 0;
  for (const Json& step : array(need(input, "grads")).GetArray()) {
    std::vector<Floats> grads;
    for (const Json& grad : array(step).GetArray()) grads.push_back(list<float>(grad));
    lamb.step(grads, ++number, params.lr);
    after.push_back(weights);
    std::vector<double>& of_step = coefficients.emplace_back();
    for (const Tensor& remembered : lamb.auxiliary()) {  // the last number of each
      if (number > 1) {
        of_step.push_back(static_cast<double>(remembered.data<float>()[remembered.numel() - 1]));
      }
    }
  }
  return Answer().add("params", after).add("coeffs", coefficients).text();
}

// The product knows the 2-norm alone, and takes it of its buckets.
double gradient_norm(std::span<const std::span<const float>> tensors, double p) {
  DS_CHECK(p > 0, "gradient_norm: the order is {}, expected above 0", p);
  double sum = 0;
  for (const std::span<const float> tensor : tensors) {
    for (const float value : tensor) {
      const double magnitude = std::abs(static_cast<double>(value));
      if (std::isinf(p)) {
        // A comparison would drop a NaN; it has to show in the norm.
        sum = std::isnan(magnitude) ? magnitude : std::max(magnitude, sum);
        if (std::isnan(sum)) return sum;
      } else {
        sum += p == 2 ? magnitude * magnitude : std::pow(magnitude, p);
      }
    }
  }
  return std::isinf(p) ? sum : p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
}

std::string clip(const Json& input) {
  std::vector<Floats> grads;
  for (const Json& grad : array(need(input, "grads")).GetArray()) {
    grads.push_back(flatten<float>(grad));
  }
  const double norm = gradient_norm(std::vector<std::span<const float>>(grads.begin(), grads.end()),
                                    get_or(input, "norm_type", 2.0));
  const float factor = kernels::clip_factor(norm, get<double>(input, "max_norm"));
  for (Floats& grad : grads) {
    for (float& value : grad) value *= factor;
  }
  return Answer().add("norm", norm).add("grads", grads).text();
}

std::string unscale_and_clip(const Json& input) {
  Floats grads = flatten<float>(need(input, "grads"));
  const double factor =
      unscale_and_clip_factor(get<double>(input, "total_norm"), get<double>(input, "loss_scale"),
                              get_or(input, "clip_grad", 0.0));
  for (float& value : grads) value *= static_cast<float>(factor);
  return Answer().add("grads", grads).text();
}

std::string batch_by_seqlens(const Json& input) {
  const std::string order = get_or<std::string>(input, "order", "dataloader");
  if (order != "dataloader" && order != "seqlen") throw std::invalid_argument("order: " + order);
  const std::vector<TokenBatch> batches =
      token_batches(list<int64_t>(need(input, "seqlens")),
                    {.max_tokens = get<int64_t>(input, "max_tokens"),
                     .min_batch_size = get_or<int64_t>(input, "min_batch_size", 1),
                     .max_batch_size = get_optional<int64_t>(input, "max_batch_size"),
                     .micro_batches_per_batch = get_or<int64_t>(input, "effective_batch_size", 1),
                     .sizes = get_or(input, "same_size", false) ? MicroBatchSizes::kEqual
                                                                : MicroBatchSizes::kFree,
                     .order = order == "seqlen" ? PackingOrder::kByLength : PackingOrder::kGiven});
  std::vector<std::pair<int64_t, std::vector<int64_t>>> micro_batches;
  std::vector<int64_t> sizes, longest;
  for (const TokenBatch& batch : batches) {
    for (const auto& samples : batch.micro_batches) {
      micro_batches.emplace_back(static_cast<int64_t>(sizes.size()), samples);
    }
    sizes.push_back(batch.samples);
    longest.push_back(batch.longest);
  }
  return Answer()
      .add("microbatches", micro_batches)
      .add("batch_sizes", sizes)
      .add("max_seqlens", longest)
      .text();
}

std::string scale_lr(const Json& input) {
  const std::string method = get_or<std::string>(input, "method", "none");
  if (method != "linear" && method != "sqrt" && method != "none") {
    throw std::invalid_argument("method: " + method);
  }
  const BatchLrRule rule = method == "linear" ? BatchLrRule::kLinear
                           : method == "sqrt" ? BatchLrRule::kSqrt
                                              : BatchLrRule::kNone;
  const double lr =
      lr_for_batch(get<double>(input, "base_lr"), get<int64_t>(input, "base_batch_size"),
                   get<int64_t>(input, "batch_size"), rule);
  return Answer().add("lr", lr).text();
}

// Results are of several kinds, so this answer is built as a document.
std::string blocked_allocator(const Json& input) {
  KvBlockList blocks(get<int64_t>(input, "num_blocks"));
  rapidjson::Document answer(rapidjson::kObjectType);
  auto& memory = answer.GetAllocator();
  rapidjson::Value results(rapidjson::kArrayType), free_blocks(rapidjson::kArrayType);
  for (const Json& call : array(need(input, "calls")).GetArray()) {
    const std::string what = as<std::string>(array(call)[0]);
    try {
      if (what == "allocate") {
        rapidjson::Value ids(rapidjson::kArrayType);
        for (const int64_t id : blocks.allocate(as<int64_t>(call[1]))) ids.PushBack(id, memory);
        results.PushBack(ids, memory);
      } else {
        blocks.free(flatten<int64_t>(call[1]));
        results.PushBack("ok", memory);
      }
    } catch (const Error&) {
      results.PushBack("error", memory);
    }
    free_blocks.PushBack(blocks.free_blocks(), memory);
  }
  answer.AddMember("results", results, memory);
  answer.AddMember("free_blocks", free_blocks, memory);
  return to_text(answer);
}

}  // namespace

std::string optimizer(const Json& input) {
  const std::string op = get<std::string>(input, "op");
  if (op == "step") return steps(input);
  if (op == "onebit_adam") return onebit_adam(input);
  if (op == "onebit_lamb") return onebit_lamb(input);
  if (op == "clip") return clip(input);
  if (op == "unscale_and_clip") return unscale_and_clip(input);
  if (op == "global_norm") {
    double squares = 0;
    for (const double norm : list<double>(need(input, "norms"))) squares += norm * norm;
    return Answer().add("norm", std::sqrt(squares)).text();
  }
  if (op == "batch_by_seqlens") return batch_by_seqlens(input);
  if (op == "scale_lr") return scale_lr(input);
  if (op == "blocked_allocator") return blocked_allocator(input);
  throw std::invalid_argument("op: " + op);
}

}  // namespace ds::conform
