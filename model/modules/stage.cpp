#include "model/modules/stage.h"

#include <algorithm>
#include <array>
#include <utility>

#include "comm/contract/communicator.h"
#include "core/text/name_pattern.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/matmul/matmul.h"
#include "model/activations/recompute.h"
#include "model/exchange/tensor.h"
#include "model/pass/kv_cache.h"

namespace ds {
namespace {

int64_t row_sharers(const Context& context) {
  const Communicator* const group = context.parallel.row_group();
  return group != nullptr ? group->size() : 1;
}

// The rows of a batch, with what it says of each.
SequenceRows rows_of(const StageInput& input) {
  SequenceRows rows = input.rows;
  rows.own_positions = input.batch.find(batch_field::kPositions);
  rows.key_ranges = input.batch.find(batch_field::kKeyRanges);
  return rows;
}

TokenRows token_rows(const MicroBatch& batch, const SequenceRows& rows) {
  return {.tokens = batch.tensor(batch_field::kTokens),
          .order = batch.find(batch_field::kTokenOrder),
          .position_order = batch.find(batch_field::kPositionOrder),
          .segments = batch.find(batch_field::kSegments),
          .segment_order = batch.find(batch_field::kSegmentOrder),
          .rows = rows};
}

// Row `length - 1` of each sequence, as constants.
Var last_rows(Stream& stream, const Var& x, const SequenceRows& rows) {
  if (!x.defined() || rows.length == 1) return x;
  const int64_t width = x.value.shape()[1];
  Tensor last = Tensor::empty({rows.batch, width}, x.value.dtype(), stream);
  for (int64_t b = 0; b < rows.batch; ++b) {
    Tensor row = last.narrow(b * width, width);
    kernels::cast(stream, x.value.narrow(((b + 1) * rows.length - 1) * width, width), row);
  }
  return {std::move(last), Var::kConstant};
}

}  // namespace

Var joined(Context& context, Residual residual) {
  if (!residual.branch.defined()) return std::move(residual.sum);
  const Tensor& sum = residual.sum.value;
  Tensor y = context.room_for(sum.shape(), sum.dtype());
  if (!context.pass.unread) kernels::add(context.stream, residual.branch.value, sum, y);
  auto backward = [](GradientFlow& flow) {
    Tensor dy = flow.take(0);
    flow.give(1, dy);
    flow.give(0, std::move(dy));
  };
  const std::array<Var, 2> inputs{residual.sum, residual.branch};
  return context.record("residual", inputs, {std::move(y)}, std::move(backward)).front();
}

namespace {

constexpr std::string_view kTokenLoss = "loss_masked_lm", kPairLoss = "loss_next_sentence";

std::string_view sides_of(const kernels::PreferenceRule& rule) {
  return kernels::learns_prompt(rule.loss) ? batch_field::kPromptedSides : batch_field::kSides;
}

}  // namespace

std::vector<std::string_view> loss_parts(const ModelConfig& config) {
  if (!config.pairs) return {};
  return {kTokenLoss, kPairLoss};
}

LayerRange all_layers(const ModelConfig& config) { return {0, dimensions(config).layers + 2}; }

Stage::Stage(Parts parts, const StageRules& rules)
    : parts_(std::move(parts)),
      dims_(dimensions(parts_.config)),
      segments_(segments_of(parts_, rules.recomputed)),
      mlp_tiles_(rules.recomputed.mlp_tiles),
      preference_(rules.preference) {}

std::vector<Stage::Segment> Stage::segments_of(const Parts& parts,
                                               const RecomputedBlocks& recomputed) {
  std::vector<NamePattern> patterns;
  for (const std::string& text : recomputed.patterns) {
    patterns.emplace_back("activation_checkpointing.modules", text, NamePattern::Case::kExact);
  }
  const bool whole = recomputed.recompute.part == RecomputedPart::kBlock;
  std::vector<Segment> segments;
  for (size_t i = 0; i < parts.blocks.size(); ++i) {
    const std::string& path = parts.blocks[i]->path();
    const auto matches = [&](const NamePattern& pattern) { return pattern.found_in(path); };
    const bool is_one = recomputed.recompute.part != RecomputedPart::kNone &&
                        (patterns.empty() || std::ranges::any_of(patterns, matches));
    const Recompute recompute = is_one ? recomputed.recompute : Recompute{};
    const bool joins =
        is_one && whole && !segments.empty() &&
        segments.back().recompute.part == RecomputedPart::kBlock &&
        segments.back().end - segments.back().begin < static_cast<size_t>(recomputed.per_segment);
    if (!joins) segments.push_back({.begin = i, .end = i, .recompute = recompute});
    ++segments.back().end;
  }
  if (recomputed.keeps_last && parts.head && segments.size() > 1) segments.back().recompute = {};
  return segments;
}

const Stage::Head& Stage::head() const {
  DS_CHECK(is_last(), "stage: only the last one has a head");
  return *parts_.head;
}

std::vector<ParamId> Stage::shared_params() const {
  if (parts_.shared == kNoParam) return {};
  return {parts_.shared};
}

BatchSpec Stage::batch_spec(const BatchExtents& extents) const {
  const BatchContent& content = extents.content;
  const bool trains = extents.mode == RunMode::kTrain;
  const int64_t rows = extents.samples * extents.length;
  std::vector<BatchField> fields;
  const auto add = [&](std::string_view name, DType dtype, const Shape& shape,
                       BatchField::Kind kind = BatchField::Kind::kGiven,
                       std::string_view from = {}) {
    fields.push_back({std::string(name), dtype, shape, kind, std::string(from)});
  };
  using namespace batch_field;
  if (is_first()) {
    add(kTokens, DType::kI32, {rows});
    if (trains) add(kTokenOrder, DType::kI32, {2, rows}, BatchField::Kind::kOrder, kTokens);
  }
  if (is_first() && parts_.embedding->spec.segments != kNoParam) {
    add(kSegments, DType::kI32, {rows});
    if (trains) add(kSegmentOrder, DType::kI32, {2, rows}, BatchField::Kind::kOrder, kSegments);
  }
  const bool has_table = is_first() && parts_.embedding->spec.positions != kNoParam;
  if (content.positions && (has_table || transformer_spec(parts_.config).rotary)) {
    add(kPositions, DType::kI32, {rows});
    if (trains && has_table) {
      add(kPositionOrder, DType::kI32, {2, rows}, BatchField::Kind::kOrder, kPositions);
    }
  }
  if (content.key_ranges) {
    add(kKeyRanges, DType::kI32, {extents.samples, extents.whole_length, 2});
  }
  if (is_last()) {
    add(kTargets, DType::kI32, {rows});
    if (content.weights) add(kWeights, DType::kF32, {rows});
    if (head().problem != ClassifierProblem::kOneClass) {
      add(kValues, DType::kF32, {extents.samples, head().classes});
    }
    if (parts_.pair_head) add(kPairTargets, DType::kI32, {rows});
    if (preference_) {
      add(sides_of(*preference_), DType::kI32, {rows});
      if (kernels::has_reference(preference_->loss)) {
        add(kReference, DType::kF64, {extents.samples, 2});
      }
    }
    if (content.is_uneven) {
      add(kWeightSum, DType::kF64, {1}, BatchField::Kind::kWeightSum, kTargets);
    }
  }
  BatchSpec spec(std::move(fields));
  if (teaching_ && trains) {
    BatchExtents answered = extents;
    answered.mode = RunMode::kEval;
    spec.add(teaching_->teacher->batch_spec(answered));
  }
  return spec;
}

Residual Stage::run(Context& context, StageInput input) const {
  return run_layers(context, std::move(input), nullptr);
}

Residual Stage::run_layers(Context& context, StageInput input, const BehindSegment& behind) const {
  const MicroBatch& batch = input.batch;
  const SequenceRows rows = rows_of(input);
  const int64_t row_count = rows.batch * rows.length;
  Residual stream;
  const Span span(context.stream, "embedding");
  // What a model begins with and does not train is computed as in an evaluation: no gradient is to
  // get there. The embedding is unit 0, and block i of a first stage is unit i + 1.
  Context frozen = context.with(*context.store, nullptr);
  const int trains_from = parts_.trains_from;
  if (is_first()) {
    Context& inside = trains_from > 0 ? frozen : context;
    const TokenRows tokens = token_rows(batch, rows);
    DS_CHECK(tokens.tokens.dtype() == DType::kI32 && tokens.tokens.shape() == Shape{row_count},
             "stage: tokens are {} {}, expected int32 [{}]", name_of(tokens.tokens.dtype()),
             tokens.tokens.shape().to_string(), row_count);
    const Embedding& embedding = *parts_.embedding;
    Var y = embed(inside, tokens, parts_.dtype, embedding.spec);
    y = scaled(inside, std::move(y), embedding.factor);
    if (embedding.norm) y = norm(inside, y, {}, *embedding.norm).y;
    stream.sum = dropout(inside, std::move(y), embedding.dropout, rows.length);
  } else {
    const Shape expected{row_count / row_sharers(context), dims_.width};
    DS_CHECK(input.boundary.defined() && input.boundary.value.shape() == expected &&
                 input.boundary.value.dtype() == parts_.dtype,
             "stage: it needs {} {} of the stage before", name_of(parts_.dtype),
             expected.to_string());
    stream.sum = std::move(input.boundary);
  }
  input = {};
  for (const Segment& segment : segments_) {
    Context& inside = std::cmp_less(segment.end, trains_from) ? frozen : context;
    stream = run_segment(inside, segment, rows, std::move(stream));
    if (behind) behind(inside, narrow<int64_t>(segment.end), stream);
  }
  if (context.cache != nullptr) context.cache->advance(rows.length);
  return stream;
}

Residual Stage::run_blocks(Context& context, const Segment& segment, const SequenceRows& rows,
                           Residual in) const {
  for (size_t i = segment.begin; i < segment.end; ++i) {
    const Block& block = *parts_.blocks[i];
    const Span in_block(context.stream, block.path());
    Context inside = context.part_of_segment(i + 1 == segment.end);
    in = block.forward(inside, rows, std::move(in));
  }
  return in;
}

Residual Stage::run_segment(Context& context, const Segment& segment, const SequenceRows& rows,
                            Residual in) const {
  Context inside = context;
  inside.pass.recompute = segment.recompute;
  inside.pass.mlp_tiles = mlp_tiles_;
  if (segment.recompute.part != RecomputedPart::kBlock || !context.differentiates()) {
    return run_blocks(inside, segment, rows, std::move(in));
  }
  // One tensor is kept of it, as between two stages.
  const Span span(context.stream, parts_.blocks[segment.begin]->path());
  std::vector<Var> inputs{joined(context, std::move(in))};
  in = {};
  std::vector<Var> out =
      recompute(inside, "recompute", std::move(inputs),
                [this, &segment, rows](Context& again, std::vector<Var> values) {
                  Residual stream{.sum = std::move(values.front()), .branch = {}};
                  stream = run_blocks(again, segment, rows, std::move(stream));
                  std::vector<Var> made{std::move(stream.sum)};
                  if (stream.branch.defined()) made.push_back(std::move(stream.branch));
                  return made;
                });
  return {std::move(out.front()), out.size() > 1 ? std::move(out.back()) : Var()};
}

Var Stage::forward(Context& context, StageInput input) const {
  DS_CHECK(!is_last(), "stage: the last one gives losses and has no boundary");
  Residual residual = run(context, std::move(input));
  const Span span(context.stream, "boundary");
  return joined(context, std::move(residual));
}

Var Stage::last_state(Context& context, const Residual& residual) const {
  const Head& last = head();
  Var y = last.norm ? norm(context, residual.sum, residual.branch, *last.norm).y
                    : joined(context, residual);
  return last.projection ? linear(context, y, *last.projection) : y;
}

// What a head's product of logits reads, of the last state y.
Var Stage::head_input(Context& context, const Head& head, Var y, const SequenceRows& rows) {
  const int64_t length = rows.length;
  if (head.pools_mean) y = mean_of_rows(context, y, rows);
  if (head.transform) {
    y = dropout(context, std::move(y), head.before, length);
    y = activated(context, linear(context, y, head.transform->linear), head.transform->activation);
    if (head.transform->norm) y = norm(context, y, {}, *head.transform->norm).y;
  }
  y = dropout(context, std::move(y), head.behind, length);
  return scaled(context, std::move(y), head.factor);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved on
Tensor Stage::hidden_states(Context& context, StageInput input) const {
  return last_state(context, run(context, std::move(input))).value;
}

// Logits fp32 [rows, outputs] of what the head's product reads.
Tensor Stage::logits_of(Context& context, const Head& head, const Tensor& y) const {
  const LogitsSpec& spec = head.logits;
  const int64_t rows = y.shape()[0], width = y.shape()[1];
  const int64_t outputs = head.classes > 0 ? head.classes : dims_.vocabulary;
  Stream& stream = context.stream;
  Tensor logits = Tensor::empty({rows, outputs}, DType::kF32, stream);
  const Lease weight = context.store->acquire(spec.weight);
  std::optional<Lease> bias;
  if (spec.bias != kNoParam) bias.emplace(context.store->acquire(spec.bias));
  kernels::matmul(stream, {.a = kernels::matrix(y, rows, width),
                           .b = kernels::matrix(weight.weight(), outputs, width),
                           .c = kernels::matrix(logits, rows, outputs),
                           .transpose_b = kernels::Transpose::kYes,
                           .bias = bias ? bias->weight() : Tensor()});
  if (spec.softcap > 0) kernels::softcap(stream, spec.softcap, logits);
  return logits;
}

// Losses of the scores that the head gives of y, which are numbers or classes that hold by
// themselves.
Tensor Stage::losses_of_values(Context& context, const Var& y, const Tensor& values,
                               const Tensor& targets, float grad_scale) const {
  const LogitsSpec& spec = head().logits;
  const LinearSpec scores{
      .parts = {{.weight = spec.weight, .bias = spec.bias, .out = head().classes}},
      .in = y.value.shape()[1]};
  const auto loss = head().problem == ClassifierProblem::kNumbers
                        ? kernels::ValueLoss::kSquaredError
                        : kernels::ValueLoss::kSigmoidCrossEntropy;
  return value_losses(context, linear(context, y, scores), loss, values, targets, grad_scale);
}

// The loss of a sample weighs as much as those of all of its tokens, since the step's is a mean
// over tokens.
Tensor Stage::losses_of_pairs(Context& context, const Var& y, const Tensor& targets,
                              const SequenceRows& rows, float grad_scale) const {
  const auto share = static_cast<float>(rows.length);
  const Head& head = *parts_.pair_head;
  Var pooled = head_input(context, head, y, rows);
  if (context.pass.mode == RunMode::kEval) {
    const Tensor scores = logits_of(context, head, pooled.value);
    if (context.scores != nullptr) context.scores->on_scores(context.stream, scores, targets, {});
  }
  Tensor losses =
      linear_cross_entropy(context, std::move(pooled), head.logits, targets, grad_scale * share);
  kernels::scale(context.stream, share, losses);
  context.report_loss(kPairLoss, losses);
  return losses;
}

// Losses of what the head's product of logits reads.
Tensor Stage::losses_of(Context& context, Var y, const MicroBatch& batch, const SequenceRows& rows,
                        float grad_scale) const {
  const Tensor& targets = batch.tensor(batch_field::kTargets);
  const Tensor values = batch.find(batch_field::kValues);
  if (head().classes > 0 && context.pass.mode == RunMode::kEval) {
    const Tensor scores = logits_of(context, head(), y.value);
    if (context.scores != nullptr) {
      context.scores->on_scores(context.stream, scores, targets, values);
    }
  }
  if (head().problem != ClassifierProblem::kOneClass) {
    return losses_of_values(context, y, values, targets, grad_scale);
  }
  if (!head().logits.is_whole) y = enter_tensor(context, std::move(y));
  if (preference_) {
    const PreferencePairs pairs{.rule = *preference_,
                                .targets = targets,
                                .sides = batch.tensor(sides_of(*preference_)),
                                .reference = batch.find(batch_field::kReference),
                                .samples = rows.batch};
    return preference_losses(context, std::move(y), head().logits, pairs, grad_scale);
  }
  return linear_cross_entropy(context, std::move(y), head().logits, targets, grad_scale,
                              batch.find(batch_field::kWeights));
}

Tensor Stage::losses(Context& context, StageInput input, float grad_scale) const {
  const MicroBatch batch = input.batch;
  const SequenceRows rows = rows_of(input);
  std::optional<Lesson> lesson;
  BehindSegment behind;
  if (teaching_ && context.pass.distills) {
    lesson = teach(context, input, grad_scale);
    behind = [&](Context& inside, int64_t block, Residual& stream) {
      match(inside, block, stream, *lesson);
    };
  }
  Residual residual = run_layers(context, std::move(input), behind);
  const Span span(context.stream, "head");
  Var y = last_state(context, residual);
  residual = {};
  Tensor pairs;
  if (parts_.pair_head) {
    const Tensor& targets = batch.tensor(batch_field::kPairTargets);
    pairs = losses_of_pairs(context, y, targets, rows, grad_scale);
  }
  y = head_input(context, head(), std::move(y), rows);
  if (lesson) return losses_of_lesson(context, std::move(y), *lesson);
  Tensor losses = losses_of(context, std::move(y), batch, rows, grad_scale);
  if (!parts_.pair_head) return losses;
  context.report_loss(kTokenLoss, losses);
  kernels::add(context.stream, losses, pairs, losses);
  return losses;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved on
Tensor Stage::next_logits(Context& context, StageInput input) const {
  DS_CHECK(context.cache == nullptr || is_causal(parts_.config),
           "stage: keys that wait for tokens, in a model that sees those behind its own");
  const SequenceRows rows{.batch = input.rows.batch, .length = input.rows.length};
  Stream& stream = context.stream;
  Residual residual = run(context, std::move(input));
  residual = {last_rows(stream, residual.sum, rows), last_rows(stream, residual.branch, rows)};
  Var y = last_state(context, residual);
  residual = {};
  y = head_input(context, head(), std::move(y), {.batch = rows.batch, .length = 1});
  return logits_of(context, head(), y.value);
}

}  // namespace ds
