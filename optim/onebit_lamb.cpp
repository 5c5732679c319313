// 1-bit LAMB over shards (Li et al., arXiv 2104.06069). The warm-up is LAMB, and remembers an
// average of each parameter's trust ratio. Then momenta are averaged in one bit, brought to a
// common magnitude because all of them have one scale on the way, and the remembered ratio is
// multiplied by a factor that follows a second, fresh variance. Every rank has whole parameters, so
// norms need no exchange; the host makes coefficients of them, and waits for them once per step.
#include <algorithm>
#include <cmath>

#include "comm/contract/communicator.h"
#include "core/memory/rounding.h"
#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/optimizer/lamb_update.h"
#include "kernels/quantize/onebit_math.h"
#include "kernels/reduce/reduce.h"
#include "optim/adam_inputs.h"
#include "optim/grouped_optimizer.h"
#include "optim/onebit.h"
#include "optim/onebit_stages.h"

namespace ds {
namespace {

using kernels::OneBitLambPart;
using kernels::OneBitPart;

constexpr size_t kExpAvg = 0, kExpAvgSq = 1, kFresh = 2;
constexpr int64_t kByteBits = 8;
constexpr const char* kFactors = "lamb_factors";

// What a run remembers of a parameter, as it lies among the auxiliary: of an optimizer that has
// made no step all of it is 0.
struct Memory {
  float frozen_ratio = 0;
  float factor_above_1 = 0;  // the last factor, less 1
  float scale_above_1 = 0;   // of the momentum while it is exchanged, less 1
  float coefficient = 0;     // of the last step
};
constexpr int64_t kMemory = sizeof(Memory) / sizeof(float);

class OneBitLamb final : public GroupedOptimizer {
 public:
  explicit OneBitLamb(const OptimizerConfig& config)
      : GroupedOptimizer(config, config.onebit_lamb.lr, config.onebit_lamb.weight_decay),
        params_(config.onebit_lamb) {
    detail::require_fp32_state(config);
  }

  std::string_view family() const override { return "onebit_lamb"; }
  std::vector<SlotSpec> slots_of(int /*kind*/) const override {
    return {{.name = "exp_avg"}, {.name = "exp_avg_sq"}, {.name = "exp_avg_sq_fresh"}};
  }
  MomentumSupport momentum_support() const override { return MomentumSupport::kBetas; }
  bool is_staged() const override { return true; }
  GradientsOf gradients_at(int64_t update) const override {
    return gradients_of(onebit_stage(update, params_.freeze_step));
  }
  std::vector<int64_t> kinds_of_updates(int64_t last) const override {
    return onebit_kinds_of_updates(last, params_.freeze_step);
  }
  std::vector<AuxiliarySpec> auxiliary_of(std::span<const Shard> parts, int ranks) const override;
  std::vector<std::string> extra_names() const override {
    return {detail::kWorkerError, detail::kServerError, kFactors};
  }

  StepInputs inputs(const Hyper& hyper, int64_t step) const override {
    return adam_inputs(hyper, params_.betas, false, step);
  }

  void step(std::span<Shard> parts, const StepScalars& scalars, const UpdateGroup& group,
            Stream& stream) const override;

 private:
  struct Param {
    Shard part;
    int options = 0;
    Tensor remembered;   // Memory
    int64_t offset = 0;  // among the numbers that are exchanged
    Memory memory{};
  };
  struct Update {
    std::vector<Param>& params;
    const StepScalars& scalars;
    const UpdateGroup& group;
    Stream& stream;
    Tensor room;  // for the largest parameter
  };

  std::vector<Param> params_of(std::span<const Shard> parts, const UpdateGroup& group) const;
  static void read_memories(const Update& update);
  static void write_memories(const Update& update);
  void move(OneBitPart what, const Update& update, std::span<const double> coefficients = {}) const;
  void look(OneBitLambPart what, const Update& update, const Param& param, const Tensor& target,
            double weight_decay = 0) const;
  std::vector<double> trust_ratios(const Update& update) const;
  std::vector<double> frozen_ratios(const Update& update) const;
  std::vector<double> warm_ratios(const Update& update, bool is_last) const;
  std::vector<double> compressed_ratios(const Update& update, bool is_first) const;
  static void unite_scales(const Update& update);
  static void exchange(const Update& update);
  double factor(Memory& memory, double quotient, double share) const;

  const OneBitLambParams params_;
};

void squares_into(Stream& stream, const Tensor& x, const Tensor& total) {
  kernels::sum_of_squares_into(stream, x, kernels::Write::kOverwrite, total);
}

// fp64 numbers of the stream's device, when they are there; on meta ones.
std::vector<double> on_host(const Tensor& numbers, Stream& stream) {
  std::vector<double> values(to_size(numbers.numel()), 1.0);
  stream.copy(numbers.address(), values.data(), numbers.bytes());
  stream.synchronize();
  return values;
}

// The first two are those of all parameters together, as they lie end to end.
std::vector<AuxiliarySpec> OneBitLamb::auxiliary_of(std::span<const Shard> parts, int ranks) const {
  std::vector<AuxiliarySpec> specs, memories;
  int64_t numel = 0;
  for (const Shard& part : parts) {
    for (const ShardField& field : part.fields) {
      numel += round_up(field.numel, kByteBits);
      memories.push_back({.name = kFactors,
                          .param = field.param,
                          .numel = kMemory,
                          .scope = AuxiliaryScope::kShared});
    }
  }
  if (ranks > 1 && !memories.empty()) {
    const int first = memories.front().param;
    const int64_t padded = kernels::onebit_padded_numel(numel, ranks);
    specs.push_back({.name = detail::kWorkerError, .param = first, .numel = padded});
    specs.push_back({.name = detail::kServerError, .param = first, .numel = padded / ranks});
  }
  specs.insert(specs.end(), memories.begin(), memories.end());
  return specs;
}

std::vector<OneBitLamb::Param> OneBitLamb::params_of(std::span<const Shard> parts,
                                                     const UpdateGroup& group) const {
  std::vector<Param> params;
  int64_t offset = 0;
  for (const Shard& shard : parts) {
    for (const ShardField& field : shard.fields) {
      Param& param = params.emplace_back();
      param.part = part_of(shard, field.offset, field.numel);
      param.options = group.params.empty() ? 0 : nth(group.params, field.param).group;
      param.offset = offset;
      offset += round_up(field.numel, kByteBits);
    }
  }
  const size_t errors = group.ranks.size() == 1 ? 0 : 2;
  DS_CHECK(params.empty() || group.auxiliary.size() == errors + params.size(),
           "onebit lamb: {} tensors beside the slots of {} parameters", group.auxiliary.size(),
           params.size());
  for (size_t i = 0; i < params.size(); ++i) params[i].remembered = group.auxiliary[errors + i];
  return params;
}

void OneBitLamb::read_memories(const Update& update) {
  for (Param& param : update.params) {
    update.stream.copy(param.remembered.address(), &param.memory, sizeof(Memory));
  }
  update.stream.synchronize();
}

void OneBitLamb::write_memories(const Update& update) {
  for (const Param& param : update.params) {
    update.stream.copy(&param.memory, param.remembered.address(), sizeof(Memory));
  }
  update.stream.synchronize();  // with what is read goes the list of parameters
}

// coefficients: what the rate of each parameter is multiplied by; none: nothing.
void OneBitLamb::move(OneBitPart what, const Update& update,
                      std::span<const double> coefficients) const {
  for (size_t i = 0; i < update.params.size(); ++i) {
    const Param& param = update.params[i];
    const GroupOptions& of = options_of(param.options);
    const double coefficient = coefficients.empty() ? 1.0 : coefficients[i];
    kernels::rule_update(update.stream,
                         {.master = param.part.master,
                          .grad = param.part.grad,
                          .states = {{param.part.slots[kExpAvg]}, {param.part.slots[kExpAvgSq]}},
                          .copy = param.part.copy},
                         kernels::OneBitRule{.eps = static_cast<float>(params_.eps),
                                             .weight_decay = static_cast<float>(of.weight_decay),
                                             .part = what,
                                             .lr_scale = of.lr_scale * coefficient},
                         update.scalars);
  }
}

void OneBitLamb::look(OneBitLambPart what, const Update& update, const Param& param,
                      const Tensor& target, double weight_decay) const {
  const std::vector<Tensor>& slots = param.part.slots;
  const Tensor& first = slots[what == OneBitLambPart::kRatio ? kExpAvgSq : kExpAvg];
  const Tensor& second = slots[what == OneBitLambPart::kDirection ? kExpAvgSq : kFresh];
  kernels::rule_update(update.stream,
                       {.master = param.part.master,
                        .grad = param.part.grad,
                        .states = {{first}, {second}, {target}}},
                       kernels::OneBitLambRule{.eps = static_cast<float>(params_.eps),
                                               .weight_decay = static_cast<float>(weight_decay),
                                               .part = what},
                       update.scalars);
}

// Norms of weight and direction of each parameter.
std::vector<double> OneBitLamb::trust_ratios(const Update& update) const {
  const int64_t count = narrow<int64_t>(update.params.size());
  const Tensor sums = Tensor::empty({2 * count}, DType::kF64, update.stream, MemoryTag::kScratch);
  for (int64_t i = 0; i < count; ++i) {
    const Param& param = nth(update.params, i);
    const Tensor direction = update.room.narrow(0, param.part.master.numel());
    look(OneBitLambPart::kDirection, update, param, direction,
         options_of(param.options).weight_decay);
    squares_into(update.stream, param.part.master, sums.narrow(2 * i, 1));
    squares_into(update.stream, direction, sums.narrow(2 * i + 1, 1));
  }
  const std::vector<double> squares = on_host(sums, update.stream);
  std::vector<double> ratios;
  for (int64_t i = 0; i < count; ++i) {
    const double ratio =
        kernels::trust_ratio(std::sqrt(nth(squares, 2 * i)), std::sqrt(nth(squares, 2 * i + 1)),
                             params_.min_coeff, params_.max_coeff);
    ratios.push_back(ratio);
    Memory& memory = nth(update.params, i).memory;
    if (ratio == 1.0) continue;
    memory.frozen_ratio =
        static_cast<float>(params_.coeff_beta * static_cast<double>(memory.frozen_ratio) +
                           (1 - params_.coeff_beta) * ratio);
  }
  return ratios;
}

// The largest quotient of frozen and fresh denominators, blended with the share that weight decay
// has in the update, within its bounds and near the last one.
double OneBitLamb::factor(Memory& memory, double quotient, double share) const {
  const double last = 1.0 + static_cast<double>(memory.factor_above_1);
  double factor = quotient * share + (1.0 - share);
  factor = std::max(std::min(factor, params_.factor_max), params_.factor_min);
  factor = std::min(factor, last * (1.0 + params_.factor_threshold));
  factor = std::max(factor, last * (1.0 - params_.factor_threshold));
  memory.factor_above_1 = static_cast<float>(factor - 1.0);
  return factor;
}

std::vector<double> OneBitLamb::frozen_ratios(const Update& update) const {
  constexpr int64_t kEach = 3;
  const int64_t count = narrow<int64_t>(update.params.size());
  const Tensor found =
      Tensor::empty({kEach * count}, DType::kF64, update.stream, MemoryTag::kScratch);
  for (int64_t i = 0; i < count; ++i) {
    const Param& param = nth(update.params, i);
    const Tensor looked_at = update.room.narrow(0, param.part.master.numel());
    look(OneBitLambPart::kRatio, update, param, looked_at);
    kernels::largest_into(update.stream, looked_at, found.narrow(kEach * i, 1));
    look(OneBitLambPart::kDirection, update, param, looked_at);
    squares_into(update.stream, looked_at, found.narrow(kEach * i + 1, 1));
    look(OneBitLambPart::kDirection, update, param, looked_at,
         options_of(param.options).weight_decay);
    squares_into(update.stream, looked_at, found.narrow(kEach * i + 2, 1));
  }
  const std::vector<double> numbers = on_host(found, update.stream);
  std::vector<double> ratios;
  for (int64_t i = 0; i < count; ++i) {
    Param& param = nth(update.params, i);
    const double without = nth(numbers, kEach * i + 1), with = nth(numbers, kEach * i + 2);
    const bool decays = options_of(param.options).weight_decay > 0 && with > 0;
    const double share = decays ? std::min(1.0, std::sqrt(without / with)) : 1.0;
    ratios.push_back(static_cast<double>(param.memory.frozen_ratio) *
                     factor(param.memory, nth(numbers, kEach * i), share));
  }
  return ratios;
}

// Compression has one scale for all momenta, so each is brought to their mean magnitude.
void OneBitLamb::unite_scales(const Update& update) {
  const int64_t count = narrow<int64_t>(update.params.size());
  const Tensor sums = Tensor::empty({count}, DType::kF64, update.stream, MemoryTag::kScratch);
  for (int64_t i = 0; i < count; ++i) {
    squares_into(update.stream, nth(update.params, i).part.slots[kExpAvg], sums.narrow(i, 1));
  }
  std::vector<double> sizes = on_host(sums, update.stream);
  double mean = 0;
  for (int64_t i = 0; i < count; ++i) {
    double& size = nth(sizes, i);
    size = std::sqrt(size / static_cast<double>(nth(update.params, i).part.master.numel()));
    mean += size / static_cast<double>(count);
  }
  for (int64_t i = 0; i < count; ++i) {
    const double size = nth(sizes, i);
    nth(update.params, i).memory.scale_above_1 =
        static_cast<float>(size > 0 ? mean / size - 1.0 : 0.0);
  }
}

void OneBitLamb::exchange(const Update& update) {
  const auto scale_by = [&](const auto& factor_of) {
    for (const Param& param : update.params) {
      Tensor momentum = param.part.slots[kExpAvg];
      kernels::scale(update.stream, factor_of(1.0F + param.memory.scale_above_1), momentum);
    }
  };
  scale_by([](float scale) { return scale; });
  if (update.group.ranks.size() > 1) {
    OneBitTensor all{
        .parts = {}, .worker = update.group.auxiliary[0], .server = update.group.auxiliary[1]};
    for (const Param& param : update.params) {
      all.parts.push_back({.values = param.part.slots[kExpAvg], .offset = param.offset});
    }
    OneBitComm(update.group.ranks).average(std::span(&all, 1), update.stream);
  }
  scale_by([](float scale) { return 1.0F / scale; });
}

std::vector<double> OneBitLamb::compressed_ratios(const Update& update, bool is_first) const {
  if (is_first) unite_scales(update);
  int64_t numel = 0;
  for (const Param& param : update.params) numel += param.part.master.numel();
  const Tensor before = Tensor::empty({numel}, DType::kF32, update.stream, MemoryTag::kScratch);
  const auto each_before = [&](const auto& use) {
    int64_t at = 0;
    for (const Param& param : update.params) {
      use(param, before.narrow(at, param.part.master.numel()));
      at += param.part.master.numel();
    }
  };
  each_before([&](const Param& param, const Tensor& momentum) {
    const Tensor& from = param.part.slots[kExpAvg];
    update.stream.copy(from.address(), momentum.address(), from.bytes());
  });
  move(OneBitPart::kMomentum, update);
  exchange(update);
  each_before([&](const Param& param, const Tensor& momentum) {
    look(OneBitLambPart::kFresh, update, param, momentum);
  });
  return frozen_ratios(update);
}

std::vector<double> OneBitLamb::warm_ratios(const Update& update, bool is_last) const {
  move(OneBitPart::kMoments, update);
  for (const Param& param : update.params) {
    const Tensor& from = param.part.slots[kExpAvgSq];
    if (!is_last) break;
    update.stream.copy(from.address(), param.part.slots[kFresh].address(), from.bytes());
  }
  return trust_ratios(update);
}

void OneBitLamb::step(std::span<Shard> parts, const StepScalars& scalars, const UpdateGroup& group,
                      Stream& stream) const {
  const int64_t number = group.number.update;
  const OneBitStage stage = onebit_stage(number, params_.freeze_step);
  if (stage == OneBitStage::kSetUp || detail::is_skipped(scalars)) return;
  std::vector<Param> params = params_of(parts, group);
  if (params.empty()) return;
  int64_t largest = 0;
  for (const Param& param : params) largest = std::max(largest, param.part.master.numel());
  const Update update{params, scalars, group, stream,
                      Tensor::empty({largest}, DType::kF32, stream, MemoryTag::kScratch)};
  read_memories(update);
  const bool was_warm = onebit_stage(number - 1, params_.freeze_step) == OneBitStage::kWarmUp;
  const std::vector<double> ratios = stage == OneBitStage::kWarmUp
                                         ? warm_ratios(update, number == params_.freeze_step)
                                         : compressed_ratios(update, was_warm);
  move(OneBitPart::kWeight, update, ratios);
  for (size_t i = 0; i < params.size(); ++i) {
    params[i].memory.coefficient = static_cast<float>(ratios[i]);
  }
  write_memories(update);
}

}  // namespace

std::unique_ptr<Optimizer> make_onebit_lamb(const OptimizerConfig& config) {
  return std::make_unique<OneBitLamb>(config);
}

}  // namespace ds
