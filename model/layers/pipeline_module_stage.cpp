#include "model/layers/pipeline_module_stage.h"

#include <algorithm>
#include <utility>

#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "model/activations/recompute.h"

namespace ds::detail {
namespace {

BatchField field_of(std::string_view name, const SampleSpec& sample, int64_t samples) {
  return {
      .name = std::string(name), .dtype = sample.dtype, .shape = of_samples(sample.shape, samples)};
}

}  // namespace

Shape of_samples(const Shape& shape, int64_t samples) {
  std::vector<int64_t> extents(shape.extents().begin(), shape.extents().end());
  extents.front() *= samples;
  return Shape(std::span<const int64_t>(extents));
}

Shape LayerStage::shape_in(const SequenceRows& rows) const {
  return of_samples(parts_.in, rows.batch);
}

Shape LayerStage::shape_out(const SequenceRows& rows) const {
  return of_samples(parts_.out, rows.batch);
}

BatchSpec LayerStage::batch_spec(const BatchExtents& extents) const {
  const BatchContent& content = extents.content;
  DS_CHECK(!content.key_ranges && !content.positions && !content.weights && !content.is_uneven,
           "pipeline module: what its layers do with positions, ranges of keys and weights is not "
           "known");
  std::vector<BatchField> fields;
  if (is_first()) {
    const SampleSpec& sample = parts_.module->input;
    fields.push_back(field_of(batch_field::kInputs, sample, extents.samples));
    if (sample.dtype == DType::kI32 && extents.mode == RunMode::kTrain) {
      fields.push_back({.name = std::string(batch_field::kTokenOrder),
                        .shape = {2, extents.samples * sample.shape.numel()},
                        .kind = BatchField::Kind::kOrder,
                        .from = std::string(batch_field::kInputs)});
    }
  }
  if (is_last()) {
    fields.push_back(field_of(batch_field::kLabels, parts_.module->label, extents.samples));
  }
  return BatchSpec(std::move(fields));
}

LayerInput LayerStage::entry(Context& context, StageInput input) const {
  const int64_t samples = input.rows.batch;
  if (!is_first()) {
    DS_CHECK(input.boundary.defined() && input.boundary.value.shape() == shape_in(input.rows),
             "pipeline module: it needs {} of the stage before", shape_in(input.rows).to_string());
    return {.value = std::move(input.boundary), .samples = samples};
  }
  const SampleSpec& sample = parts_.module->input;
  Tensor values = input.batch.tensor(batch_field::kInputs);
  if (sample.dtype == DType::kF32 && dtype() != DType::kF32) {
    Tensor rounded = Tensor::empty(values.shape(), dtype(), context.stream);
    kernels::cast(context.stream, values, rounded);
    values = std::move(rounded);
  }
  return {.value = {.value = std::move(values)},
          .order = input.batch.find(batch_field::kTokenOrder),
          .samples = samples};
}

Var LayerStage::run_layers(Context& context, size_t begin, size_t end, LayerInput in) const {
  for (size_t i = begin; i < end; ++i) {
    const Span span(context.stream, "layer");
    Context inside = context.part_of_segment(i + 1 == end);
    in.value = parts_.layers[i]->forward(inside, in);
    in.order = {};  // of the samples alone
  }
  return std::move(in.value);
}

Var LayerStage::run(Context& context, LayerInput in) const {
  const auto interval = to_size(parts_.module->activation_checkpoint_interval);
  const size_t count = parts_.layers.size();
  if (interval == 0 || !context.differentiates()) {
    return run_layers(context, 0, count, std::move(in));
  }
  for (size_t begin = 0; begin < count; begin += interval) {
    const size_t end = std::min(begin + interval, count);
    std::vector<Var> out =
        recompute(context, "recompute", {std::move(in.value)},
                  [this, begin, end, order = in.order, samples = in.samples](
                      Context& again, std::vector<Var> values) {
                    return std::vector<Var>{run_layers(
                        again, begin, end,
                        {.value = std::move(values.front()), .order = order, .samples = samples})};
                  });
    in.value = std::move(out.front());
    in.order = {};
  }
  return std::move(in.value);
}

Var LayerStage::forward(Context& context, StageInput input) const {
  DS_CHECK(!is_last(), "pipeline module: the last stage gives losses and has no boundary");
  return run(context, entry(context, std::move(input)));
}

Tensor LayerStage::losses(Context& context, StageInput input, float grad_scale) const {
  DS_CHECK(is_last(), "pipeline module: only the last stage has a loss");
  const PipelineModuleParts& module = *parts_.module;
  const int64_t samples = input.rows.batch;
  const Tensor labels = input.batch.tensor(batch_field::kLabels);
  Var last = run(context, entry(context, std::move(input)));
  const Span span(context.stream, "loss");
  Tensor losses = parts_.loss->losses(context, {.value = std::move(last), .samples = samples},
                                      labels, grad_scale);
  DS_CHECK(losses.dtype() == DType::kF32 && losses.numel() == samples * module.losses_per_sample,
           "pipeline module: {} gives {} {} of {} samples, expected fp32 and {} of each",
           module.loss.type, name_of(losses.dtype()), losses.shape().to_string(), samples,
           module.losses_per_sample);
  return losses;
}

Tensor LayerStage::next_logits(Context&, StageInput) const {
  throw Unsupported("a list of layers: it gives losses, and knows no tokens that come next");
}

}  // namespace ds::detail
