// Muon over shards that hold whole matrices, and AdamW for everything else.
#include <algorithm>
#include <cmath>

#include "core/values/index.h"
#include "kernels/optimizer/muon_update.h"
#include "kernels/optimizer/newton_schulz.h"
#include "optim/adam_inputs.h"
#include "optim/shard_ranges.h"
#include "optim/whole_parameters.h"

namespace ds {
namespace {

constexpr int kAdamW = 0, kMatrices = 1;  // kinds

// The rate of a kind, in proportion to the one that the schedule sets.
GroupOptions options_with(const MuonParams& params, const std::optional<double>& lr,
                          std::string_view key) {
  if (lr && params.lr == 0) {
    throw ConfigError(fmt::format(
        "optimizer.params.{}: {}, but optimizer.params.lr is 0, to which it stands in proportion",
        key, *lr));
  }
  return {.lr_scale = lr ? *lr / params.lr : 1.0, .weight_decay = params.weight_decay};
}

// Embeddings and the head are matrices by shape only: tables of vectors, of tokens one by one.
bool is_table(std::string_view name) {
  return std::ranges::any_of(std::array{"embed", "lm_head", "wte", "wpe"}, [&](const char* part) {
    return name.find(part) != std::string_view::npos;
  });
}

class Muon final : public Optimizer {
 public:
  explicit Muon(const OptimizerConfig& config)
      : params_(config.muon),
        groups_{ParamGroups(config.param_groups, options_with(params_, params_.adam_lr, "adam_lr"),
                            params_.lr),
                ParamGroups(config.param_groups, options_with(params_, params_.muon_lr, "muon_lr"),
                            params_.lr)} {
    if (config.moment_dtype != MomentType::kFp32) {
      throw Unsupported("optimizer.moment_dtype: Muon keeps its state in fp32");
    }
  }

  std::string_view family() const override { return "muon"; }

  std::vector<ParamPlace> place(std::span<const ParamFacts> params) override {
    std::vector<ParamPlace> places = Optimizer::place(params);
    const std::vector<int> groups = groups_[kMatrices].assign(params);
    for (size_t i = 0; i < params.size(); ++i) {
      const bool is_matrix = params[i].shape.rank() == 2;
      const std::optional<bool> wanted = nth(groups_[kMatrices].options(), groups[i]).use_muon;
      if (wanted.value_or(false) && !is_matrix) {
        throw ConfigError(fmt::format(
            "optimizer.param_groups[{}].use_muon: {} has shape {}, and Muon is for matrices",
            groups[i] - 1, params[i].name, params[i].shape.to_string()));
      }
      places[i].group = groups[i];
      places[i].kind = wanted.value_or(is_matrix && !is_table(params[i].name)) ? kMatrices : kAdamW;
    }
    return places;
  }
  int kinds() const override { return 2; }
  std::vector<SlotSpec> slots_of(int kind) const override {
    if (kind == kMatrices) return {{.name = "momentum_buffer"}};
    return {{.name = "exp_avg"}, {.name = "exp_avg_sq"}};
  }
  bool needs_whole_parameters(int kind) const override { return kind == kMatrices; }

  MomentumSupport momentum_support() const override { return MomentumSupport::kNone; }
  StepInputs inputs(const Hyper& hyper, int64_t step) const override {
    return adam_inputs(hyper, params_.betas, /*bias_correction=*/true, step);
  }

  void step(std::span<Shard> parts, const StepScalars& scalars, const UpdateGroup& group,
            Stream& stream) const override {
    const bool matrices =
        std::ranges::any_of(parts, [](const Shard& shard) { return shard.slots.size() == 1; });
    matrices ? step_matrices(parts, scalars, group, stream)
             : step_rest(parts, scalars, group, stream);
  }

 private:
  const GroupOptions& options_of(int kind, int group) const {
    return nth(nth(groups_, kind).options(), group);
  }

  void step_rest(std::span<const Shard> parts, const StepScalars& scalars, const UpdateGroup& group,
                 Stream& stream) const {
    for (const Shard& shard : parts) {
      DS_CHECK(shard.slots.size() == 2, "muon: {} slots given, expected 2 of its AdamW",
               shard.slots.size());
      for (const ShardRange& range : ranges_by_group(shard, group.params)) {
        const Shard part = part_of(shard, range.begin, range.numel);
        const GroupOptions& options = options_of(kAdamW, range.group);
        kernels::adam_update(stream,
                             {.master = part.master,
                              .grad = part.grad,
                              .exp_avg = part.slots[0],
                              .exp_avg_sq = part.slots[1],
                              .copy = part.copy,
                              .rule = {.eps = static_cast<float>(params_.eps),
                                       .weight_decay = static_cast<float>(options.weight_decay),
                                       .lr_scale = options.lr_scale}},
                             scalars);
      }
    }
  }

  DType dtype_of(const Shard& shard) const {
    if (params_.ns_dtype == NewtonSchulzType::kBf16) return DType::kBF16;
    if (params_.ns_dtype == NewtonSchulzType::kFp32) return DType::kF32;
    return shard.copy.defined() && shard.copy.dtype() == DType::kBF16 ? DType::kBF16 : DType::kF32;
  }

  void step_matrices(std::span<const Shard> parts, const StepScalars& scalars,
                     const UpdateGroup& group, Stream& stream) const {
    int64_t numel = 0;
    std::vector<kernels::MatrixSize> sizes;
    for (const Shard& shard : parts) {
      for (const ShardField& field : shard.fields) {
        const ParamPlace& place = nth(group.params, field.param);
        DS_CHECK(field.param_begin == 0 && field.numel == place.numel && place.rows > 0,
                 "muon: {} elements of parameter {} are here, expected all {}", field.numel,
                 field.param, place.numel);
        numel = std::max(numel, field.numel);
        sizes.push_back({.rows = place.rows, .columns = place.numel / place.rows});
      }
    }
    if (numel == 0) return;
    const DType dtype = dtype_of(parts.front());
    const Tensor x = Tensor::empty({numel}, dtype, stream, MemoryTag::kScratch);
    kernels::NewtonSchulz iteration(params_.ns_method == NewtonSchulz::kGram
                                        ? kernels::NewtonSchulzForm::kGram
                                        : kernels::NewtonSchulzForm::kStandard,
                                    dtype, sizes, stream);
    for (const Shard& shard : parts) {
      for (const ShardField& field : shard.fields) {
        step_matrix(part_of(shard, field.offset, field.numel), nth(group.params, field.param),
                    x.narrow(0, field.numel), iteration, scalars, stream);
      }
    }
  }

  void step_matrix(const Shard& part, const ParamPlace& place, const Tensor& x,
                   kernels::NewtonSchulz& iteration, const StepScalars& scalars,
                   Stream& stream) const {
    const int64_t columns = place.numel / place.rows;
    const GroupOptions& options = options_of(kMatrices, place.group);
    kernels::muon_momentum(stream, {.grad = part.grad, .momentum = part.slots[0], .x = x},
                           static_cast<float>(params_.momentum), scalars);
    const double ratio = static_cast<double>(place.rows) / static_cast<double>(columns);
    kernels::muon_apply(stream,
                        {.master = part.master,
                         .x = iteration.orthogonalize(x, place.rows, columns),
                         .copy = part.copy},
                        {.weight_decay = options.weight_decay,
                         .lr_scale = options.lr_scale,
                         .size = std::sqrt(std::max(1.0, ratio))},
                        scalars);
  }

  const MuonParams params_;
  const std::array<ParamGroups, 2> groups_;  // by kind
};

}  // namespace

std::unique_ptr<Optimizer> make_muon(const OptimizerConfig& config) {
  return std::make_unique<Muon>(config);
}

}  // namespace ds
