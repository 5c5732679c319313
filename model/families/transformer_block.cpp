#include "model/families/transformer_block.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/status/error.h"
#include "core/values/index.h"
#include "model/activations/recompute.h"
#include "model/modules/activation_name.h"

namespace ds {
namespace {

// Makes the linear layers of a block.
class Projections {
 public:
  Projections(const TransformerSpec& spec, const ModelDimensions& dims)
      : layout_(spec.inputs_first ? WeightLayout::kInOut : WeightLayout::kOutIn),
        width_(dims.width),
        deviation_(spec.initializer_range),
        into_residual_(spec.scales_branches
                           ? deviation_ / std::sqrt(2.0 * static_cast<double>(dims.layers))
                           : deviation_) {}

  LinearPart in(const BuildContext& branch, const ProjectionSpec& spec, int64_t out,
                const LinearCut& cut, const std::optional<StoredOutputs>& stored = {}) const {
    return linear_part(branch.child(spec.name), width_, out, layout_, bias_of(spec), deviation_,
                       cut, stored);
  }
  LinearSpec joined(std::vector<LinearPart> parts) const {
    return {.parts = std::move(parts), .in = width_, .layout = layout_};
  }
  LinearSpec out(const BuildContext& branch, const ProjectionSpec& spec, int64_t in,
                 const std::vector<Range>& kept) const {
    return linear_layer(branch.child(spec.name), in, width_, layout_, bias_of(spec), into_residual_,
                        {.in = kept});
  }

 private:
  static Bias bias_of(const ProjectionSpec& spec) {
    return spec.has_bias ? Bias::kZeros : Bias::kNone;
  }

  WeightLayout layout_;
  int64_t width_;
  double deviation_, into_residual_;
};

// Queries, keys and values side by side, and of each the same heads.
std::vector<Range> packed_cut(const std::vector<Range>& of_each, int64_t width) {
  std::vector<Range> packed;
  for (int64_t part = 0; part < 3; ++part) {
    for (const Range& heads : of_each) {
      packed.push_back({part * width + heads.begin, part * width + heads.end});
    }
  }
  return packed;
}

// Returns where a folder has the outputs of each of several projections, if it joins them. `outs`:
// how many they are; head_dim: so many of each make a head.
std::vector<std::optional<StoredOutputs>> stored_outputs(const BuildContext& branch,
                                                         const BranchSpec& spec,
                                                         const std::vector<int64_t>& outs,
                                                         int64_t head_dim) {
  std::vector<std::optional<StoredOutputs>> stored(outs.size());
  if (!spec.joined) return stored;
  const int64_t all = std::accumulate(outs.begin(), outs.end(), int64_t{0});
  const auto parts = narrow<int64_t>(outs.size());
  const bool by_head = spec.joined->order == JoinOrder::kHeadByHead;
  DS_CHECK(!by_head || std::ranges::count(outs, outs.front()) == parts,
           "block: {} has the heads of unlike projections by turns", spec.joined->name);
  int64_t first = 0;
  for (size_t i = 0; i < outs.size(); ++i) {
    const int64_t block = by_head ? head_dim : outs[i];
    stored[i] = StoredOutputs{
        .module = branch.child(spec.joined->name).path,
        .rows = {.rows = all, .first = first, .block = block, .stride = block * parts},
        .layers = narrow<int>(parts)};
    first += block;
  }
  return stored;
}

LinearSpec attention_in(const Projections& projections, const BuildContext& branch,
                        const BranchSpec& spec, const ModelDimensions& dims, const BlockCut& cut) {
  const std::vector<ProjectionSpec>& specs = spec.in;
  const int64_t queries = dims.heads * dims.head_dim, keys = dims.kv_heads * dims.head_dim;
  if (specs.size() == 1) {
    DS_CHECK(queries == keys, "block: {} packs {} queries and {} keys", specs.front().name, queries,
             keys);
    return projections.joined({projections.in(branch, specs.front(), 3 * queries,
                                              {.out = packed_cut(cut.queries, queries)})});
  }
  DS_CHECK(specs.size() == 3, "block: {} projections of queries, keys, values", specs.size());
  const LinearCut of_keys{.out = cut.keys, .summed = cut.keys_summed};
  const auto stored = stored_outputs(branch, spec, {queries, keys, keys}, dims.head_dim);
  std::vector<LinearPart> parts{
      projections.in(branch, specs[0], queries, {.out = cut.queries}, stored[0])};
  parts.push_back(projections.in(branch, specs[1], keys, of_keys, stored[1]));
  parts.push_back(projections.in(branch, specs[2], keys, of_keys, stored[2]));
  return projections.joined(std::move(parts));
}

LinearSpec mlp_in(const Projections& projections, const BuildContext& branch,
                  const BranchSpec& spec, int64_t inner, const BlockCut& cut) {
  const auto stored =
      stored_outputs(branch, spec, std::vector<int64_t>(spec.in.size(), inner), inner);
  std::vector<LinearPart> parts;
  for (size_t i = 0; i < spec.in.size(); ++i) {
    parts.push_back(projections.in(branch, spec.in[i], inner, {.out = cut.inner}, stored[i]));
  }
  return projections.joined(std::move(parts));
}

bool is_layer_norm(NormKind kind) {
  return kind == NormKind::kLayer || kind == NormKind::kLayerUnbiased;
}

kernels::RmsWeight rms_weight(NormKind kind) {
  return kind == NormKind::kRmsOnePlus ? kernels::RmsWeight::kOnePlus : kernels::RmsWeight::kPlain;
}

// Ranks that share the heads of a layer have the weights of all, and each makes a part of their
// gradients; where all heads are normed together, each makes all of them.
HeadNormSpec head_norm_params(const TransformerSpec& spec, const BuildContext& attention,
                              const ModelDimensions& dims) {
  using Extent = HeadNorms::Extent;
  using Weights = HeadNormSpec::Weights;
  const HeadNorms& norms = *spec.head_norms;
  const NormKind kind = norms.kind.value_or(spec.norms.kind);
  DS_CHECK(kind != NormKind::kLayer, "block: norms of heads with biases");
  HeadNormSpec out;
  out.norm = {.form = is_layer_norm(kind) ? NormForm::kLayer : NormForm::kRms,
              .eps = static_cast<float>(spec.norms.eps),
              .weight = rms_weight(kind)};
  const auto weight = [&](const BuildContext& place, int64_t heads) {
    ParamPart part;
    if (place.tensor && norms.extent != Extent::kAllHeads) part.summed = {Axis::kTensor};
    return place.param("weight", {heads * dims.head_dim}, unit_weight(out.norm.weight),
                       ModuleKind::kLayerNorm, part);
  };
  const auto weights_of = [&](std::string_view name, int64_t heads) {
    std::vector<ParamId> all;
    if (norms.extent != Extent::kEachOwn) {
      const int64_t together = norms.extent == Extent::kAllHeads ? heads : 1;
      return std::vector{weight(attention.child(name), together)};
    }
    for (int64_t head = 0; head < heads; ++head) {
      all.push_back(weight(attention.child(name, head), 1));
    }
    return all;
  };
  if (norms.extent == Extent::kAllHeads) out.weights = Weights::kOverAll;
  if (norms.extent == Extent::kEachOwn) out.weights = Weights::kEachOwn;
  out.queries = weights_of(norms.queries, dims.heads);
  out.keys = weights_of(norms.keys, dims.kv_heads);
  if (attention.tensor) {
    out.first_query = attention.tensor->heads.begin;
    out.first_key = attention.tensor->kv_heads.begin;
    out.key_copies = attention.tensor->key_replicas;
  }
  return out;
}

// Experts of one width, [count, 2 inner, width] and [count, width, inner], and what a folder has of
// each.
struct ExpertList {
  BuildContext place;  // of what is stacked
  std::vector<std::string> modules;
  int64_t inner = 0;
  size_t number = 0;  // of the width among ExpertsSpec::inner_widths()
};

ExpertLayer expert_layer(const TransformerSpec& spec, const BuildContext& router,
                         const ExpertList& list, int64_t width) {
  const ExpertProjections& names = spec.experts->projections;
  const auto count = narrow<int64_t>(list.modules.size());
  const Initializer init = normal(spec.initializer_range);
  std::vector<Range> up_cut, down_cut;
  ParamPart of_router;
  int64_t inner = list.inner;
  if (router.tensor) {
    // What a rank makes is a part of a sum, and so are the gradients of weights and their router.
    const Range own = router.tensor->experts.at(list.number);
    up_cut = {own, {inner + own.begin, inner + own.end}};
    down_cut = {own};
    of_router.summed = {Axis::kTensor};
    inner = own.numel();
  }
  ExpertLayer layer{
      .width = width, .inner = inner, .activation = parse_activation(spec.activation)};
  layer.router =
      router.param("weight", {count, width}, init, ModuleKind::kLinear, std::move(of_router));
  std::vector<std::string> up, down;
  for (const std::string& module : list.modules) {
    up.push_back(fmt::format("{}.{}.weight", module, names.gate));
    up.push_back(fmt::format("{}.{}.weight", module, names.up));
    down.push_back(fmt::format("{}.{}.weight", module, names.down));
  }
  layer.up = list.place.param(
      "gate_up_proj", {count, 2 * list.inner, width}, init, ModuleKind::kLinear,
      {.kept = {{}, std::move(up_cut), {}}, .pieces = std::move(up), .packs = true});
  layer.down = list.place.param(
      "down_proj", {count, width, list.inner}, init, ModuleKind::kLinear,
      {.kept = {{}, {}, std::move(down_cut)}, .pieces = std::move(down), .packs = true});
  return layer;
}

// The experts that a router chooses among, and the one that all tokens go through, which is the
// only one of a router whose score is the sigmoid.
std::vector<ExpertLayer> expert_layers(const TransformerSpec& spec, const BuildContext& block,
                                       int64_t width) {
  using kernels::RouterScore;
  using kernels::WeightSum;
  const ExpertsSpec& experts = *spec.experts;
  const BuildContext place = block.child(experts.name);
  ExpertList list{.place = place.child(experts.list), .modules = {}, .inner = experts.inner};
  for (int64_t expert = 0; expert < experts.count; ++expert) {
    list.modules.push_back(place.child(experts.module_of(expert)).path);
  }
  std::vector<ExpertLayer> layers{expert_layer(spec, place.child(experts.router), list, width)};
  layers.back().rule = {.experts = experts.count,
                        .choices = experts.choices,
                        .weight_sum = experts.sums_to_one ? WeightSum::kOne : WeightSum::kAsIs};
  if (!experts.shared) return layers;
  const BuildContext shared = place.child(experts.shared->name);
  const ExpertList alone{
      .place = shared, .modules = {shared.path}, .inner = experts.shared->inner, .number = 1};
  layers.push_back(expert_layer(spec, place.child(experts.shared->gate), alone, width));
  layers.back().rule = {.experts = 1, .score = RouterScore::kSigmoid};
  return layers;
}

kernels::RotaryTable rotary_table(const RotarySpec& spec, int64_t head_dim) {
  return {.frequencies = rotary_frequencies(spec, head_dim),
          .factor = static_cast<float>(rotary_factor(spec)),
          .pairs_neighbours = spec.pairs == RotaryPairs::kNeighbours};
}

}  // namespace

bool has_window(const TransformerSpec& spec, int64_t layer) {
  return spec.window && spec.window->is_of(layer);
}

kernels::AttentionMask attention_mask(const TransformerSpec& spec, int64_t layer) {
  const bool sees_both_sides = spec.attention_kind == AttentionKind::kBidirectional;
  if (!has_window(spec, layer)) {
    return sees_both_sides ? kernels::full_mask() : kernels::AttentionMask{};
  }
  kernels::AttentionMask mask = kernels::window_mask(spec.window->keys);
  if (sees_both_sides) mask.right = mask.left;
  return mask;
}

kernels::AttentionSpec attention_spec(const TransformerSpec& spec, const ModelDimensions& dims,
                                      int64_t layer) {
  double scale = spec.scores.scale;
  if (spec.scores.by_layer) {
    if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(dims.head_dim));
    scale /= static_cast<double>(layer + 1);
  }
  return {.mask = attention_mask(spec, layer),
          .scale = static_cast<float>(scale),
          .softcap = static_cast<float>(spec.scores.softcap)};
}

std::optional<NormSpec> norm_params(const TransformerSpec& spec, const BuildContext& build,
                                    std::string_view name, int64_t width) {
  if (name.empty()) return std::nullopt;
  const BuildContext place = build.child(name);
  const auto& [kind, eps, skips_first] = spec.norms;
  if (!is_layer_norm(kind)) return rms_norm_params(place, width, eps, rms_weight(kind));
  return layer_norm_params(place, width, eps,
                           kind == NormKind::kLayer ? Bias::kZeros : Bias::kNone);
}

TransformerBlock::TransformerBlock(const TransformerSpec& spec, const ModelDimensions& dims,
                                   const BuildContext& build, int64_t layer)
    : Block(build.path),
      dims_(dimensions_here(build, dims)),
      layer_(layer),
      attention_(attention_spec(spec, dims, layer)),
      branch_factor_(static_cast<float>(spec.factors.branch)),
      mlp_input_(spec.mlp_input) {
  const Projections projections(spec, dims);
  const BlockCut cut = block_cut(build, dims.head_dim);
  const BuildContext attention = build.child(spec.names.attention);
  const BuildContext mlp = build.child(spec.names.mlp);
  const auto place = static_cast<uint64_t>(spec.dropout_places * layer + 1);  // 0: the embedding's
  attention_dropout_ = {static_cast<float>(dims.attention_dropout), place};
  attention_out_dropout_ = {static_cast<float>(spec.attention_out_dropout), place + 1};
  mlp_dropout_ = {static_cast<float>(spec.mlp_dropout), place + 2};
  const bool turns_by_window = spec.window_rotary && has_window(spec, layer);
  const std::optional<RotarySpec>& rotary = turns_by_window ? spec.window_rotary : spec.rotary;
  if (rotary && !spec.unrotated.is_of(layer)) {
    rotary_ = rotary_table(*rotary, dims.head_dim);
  }
  const auto norm_of = [&](std::string_view name) {
    return norm_params(spec, build, name, dims.width);
  };
  if (layer > 0 || !spec.norms.skips_first) {
    attention_norms_.before = norm_of(spec.names.attention_norm);
  }
  qkv_ = attention_in(projections, attention, spec.attention, dims, cut);
  if (spec.head_norms) head_norms_ = head_norm_params(spec, attention, dims);
  attention_out_ =
      projections.out(attention, spec.attention.out, dims.heads * dims.head_dim, cut.queries);
  attention_norms_.behind = norm_of(spec.names.attention_out_norm);
  attention_norms_.of_sum = norm_of(spec.names.attention_sum_norm);
  mlp_norms_.before = norm_of(spec.names.mlp_norm);
  if (spec.experts && spec.experts->layers.is_of(layer)) {
    experts_ = expert_layers(spec, build, dims.width);
  } else {
    mlp_.up = mlp_in(projections, mlp, spec.mlp, dims.inner, cut);
    mlp_.down = projections.out(mlp, spec.mlp.out, dims.inner, cut.inner);
  }
  mlp_norms_.behind = norm_of(spec.names.mlp_out_norm);
  mlp_norms_.of_sum = norm_of(spec.names.mlp_sum_norm);
  DS_CHECK((spec.attention_out_dropout == 0 && spec.mlp_dropout == 0) || spec.dropout_places >= 3,
           "block: {} places where branches are dropped, of three in a block", spec.dropout_places);
  DS_CHECK(branch_factor_ == 1 || !(attention_norms_.behind || mlp_norms_.behind),
           "block: a factor of branches that have norms behind them");
  DS_CHECK(mlp_input_ == MlpInput::kAfterAttention || !attention_norms_.of_sum,
           "block: an MLP beside attention whose sum with the stream has a norm");
  mlp_.has_gate = spec.has_gate;
  mlp_.activation = parse_activation(spec.activation);
}

// What a branch reads, and the residual stream that it adds to.
NormOutput TransformerBlock::stream_of(Context& context, Residual in, const BranchNorms& norms) {
  if (norms.before) return norm(context, in.sum, in.branch, *norms.before);
  const Var sum = joined(context, std::move(in));
  return {sum, sum};
}

Residual TransformerBlock::with_branch(Context& context, Var sum, Var branch,
                                       const BranchNorms& norms) {
  if (norms.behind) branch = norm(context, branch, {}, *norms.behind).y;
  if (!norms.of_sum) return {std::move(sum), std::move(branch)};
  return {norm(context, sum, branch, *norms.of_sum).y, {}};
}

Var TransformerBlock::attend(Context& context, const SequenceRows& rows, Var y) const {
  kernels::AttentionSpec spec = attention_;
  spec.shape = {.batch = rows.batch,
                .length = rows.length,
                .heads = dims_.heads,
                .kv_heads = dims_.kv_heads,
                .head_dim = dims_.head_dim};
  spec.mask.ranges = rows.key_ranges;
  return recompute_part(context, RecomputedPart::kAttention, std::move(y),
                        [this, spec, rows](Context& inside, Var normed) {
                          Var qkv = linear(inside, enter_tensor(inside, std::move(normed)), qkv_);
                          if (head_norms_)
                            qkv = norm_heads(inside, spec.shape, *head_norms_, std::move(qkv));
                          if (rotary_)
                            qkv = rope(inside, spec.shape, *rotary_, rows, std::move(qkv));
                          Var heads = attention(inside, spec, qkv, layer_, attention_dropout_);
                          qkv = {};
                          Context end = inside.end_of_segment();
                          Var out =
                              dropout(end, leave_tensor(end, linear(end, heads, attention_out_)),
                                      attention_out_dropout_, rows.length);
                          return scaled(end, std::move(out), branch_factor_);
                        });
}

Var TransformerBlock::mlp_or_experts(Context& context, const Var& y) const {
  if (experts_.empty()) return mlp(context, y, mlp_);
  Var sum;
  for (const ExpertLayer& layer : experts_) {
    Var part = experts(context, y, layer);
    sum = sum.defined() ? joined(context, {std::move(sum), std::move(part)}) : std::move(part);
  }
  return sum;
}

Var TransformerBlock::run_mlp(Context& context, const SequenceRows& rows, Var y) const {
  // A norm that reads what the MLP gives does so also where the whole block is run again.
  Context around = mlp_norms_.read_branch() ? context.part_of_segment(false) : context;
  return recompute_part(around, RecomputedPart::kMlp, std::move(y),
                        [this, length = rows.length](Context& inside, Var normed) {
                          normed = enter_tensor(inside, std::move(normed));
                          Context end = inside.end_of_segment();
                          Var out = mlp_or_experts(end, normed);
                          out =
                              dropout(end, leave_tensor(end, std::move(out)), mlp_dropout_, length);
                          return scaled(end, std::move(out), branch_factor_);
                        });
}

Residual TransformerBlock::forward(Context& context, const SequenceRows& rows, Residual in) const {
  NormOutput read = stream_of(context, std::move(in), attention_norms_);
  Var same = mlp_input_ == MlpInput::kAsAttention ? read.y : Var();
  Var branch = attend(context, rows, std::move(read.y));
  Residual out = with_branch(context, std::move(read.sum), std::move(branch), attention_norms_);
  if (mlp_input_ == MlpInput::kBesideAttention) {
    read = stream_of(context, {std::move(out.sum), {}}, mlp_norms_);
    read.sum = joined(context, {std::move(read.sum), std::move(out.branch)});
  } else if (mlp_input_ == MlpInput::kAsAttention) {
    read = {.sum = joined(context, std::move(out)), .y = std::move(same)};
  } else {
    read = stream_of(context, std::move(out), mlp_norms_);
  }
  branch = run_mlp(context, rows, std::move(read.y));
  return with_branch(context, std::move(read.sum), std::move(branch), mlp_norms_);
}

}  // namespace ds
