#include "train/watch/first_bad_number.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "train/measure/json_line.h"
#include "train/step/pipeline.h"

namespace ds {
namespace {

// Who is told of samples was told when the step was made.
class ReplayedSource final : public BatchSource {
 public:
  explicit ReplayedSource(BatchSource& source) : source_(source) {}
  void fill(int64_t step, int micro_step, const MicroBatch& batch) override {
    source_.fill(step, micro_step, batch);
  }
  int64_t first_sample(int micro_step) const override { return source_.first_sample(micro_step); }
  std::optional<MicroBatch> take(int64_t step, int micro_step) override {
    return source_.take(step, micro_step);
  }
  void give_back(const Event& copied) override { source_.give_back(copied); }

 private:
  BatchSource& source_;
};

struct Found {
  int64_t element = -1;  // -1: all are finite
  int64_t count = 0;
  double value = 0;
};

bool is_looked_at(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

template <class T>
void look_at(const Tensor& part, int64_t first, Found& found) {
  const std::span<const T> all(part.data<T>(), to_size(part.numel()));
  // Almost always there is none, and this loop is one of vectors.
  int64_t bad = 0;
  for (const T value : all) bad += std::isfinite(static_cast<float>(value)) ? 0 : 1;
  if (bad == 0) return;
  if (found.count == 0) {
    const auto at = std::ranges::find_if(
        all, [](T value) { return !std::isfinite(static_cast<float>(value)); });
    found.element = first + (at - all.begin());
    found.value = static_cast<double>(static_cast<float>(*at));
  }
  found.count += bad;
}

std::string place_of(int64_t element, const Shape& shape) {
  std::vector<int64_t> at;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at.push_back(element % shape[axis]);
    element /= shape[axis];
  }
  std::ranges::reverse(at);
  return fmt::format("[{}]", fmt::join(at, ", "));
}

std::string value_text(double value) {
  if (std::isnan(value)) return "nan";
  return value < 0 ? "-inf" : "inf";
}

// As it travels between ranks.
struct WireNumber {
  int32_t found = 0;
  int32_t micro_step = 0, in_backward = 0, kind = 0;
  int64_t element = 0, bad = 0, numel = 0, passed = 0, looks = 0;
  std::array<char, 256> module{}, name{};
  std::array<char, 96> shape{}, place{};
  std::array<char, 8> value{};
};

WireNumber on_wire(const std::optional<BadNumber>& number) {
  WireNumber out;
  if (!number) return out;
  out.found = 1;
  out.micro_step = number->micro_step;
  out.in_backward = number->in_backward ? 1 : 0;
  out.kind = static_cast<int32_t>(number->kind);
  out.element = number->element;
  out.bad = number->bad;
  out.numel = number->numel;
  out.passed = number->passed;
  out.looks = number->looks;
  put_text(out.module, number->module);
  put_text(out.name, number->name);
  put_text(out.shape, number->shape);
  put_text(out.place, number->place);
  put_text(out.value, number->value);
  return out;
}

BadNumber off_wire(const WireNumber& number) {
  return {.micro_step = number.micro_step,
          .in_backward = number.in_backward != 0,
          .kind = static_cast<NumberKind>(number.kind),
          .module = number.module.data(),
          .name = number.name.data(),
          .shape = number.shape.data(),
          .element = number.element,
          .place = number.place.data(),
          .value = number.value.data(),
          .bad = number.bad,
          .numel = number.numel,
          .passed = number.passed,
          .looks = number.looks};
}

// Returns the stages that a rank's chunks are in the chain of the chunks of all ranks.
std::vector<int> stages_of(const Engine& engine) {
  const int stages = engine.mesh().size(Axis::kPipe);
  if (stages == 1) return {0};
  const PipelineShape shape = pipeline_shape(engine.options(), stages);
  std::vector<int> here;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    here.push_back(virtual_stage(engine.options().pipeline.schedule, shape,
                                 engine.mesh().coordinate(Axis::kPipe), chunk));
  }
  return here;
}

std::string tensor_of(const BadNumber& number) {
  switch (number.kind) {
    case NumberKind::kWeight:
      return "weight " + number.name;
    case NumberKind::kOutput:
      return "output of " + number.name;
    case NumberKind::kInputGradient:
      return "gradient of the input of " + number.name;
    case NumberKind::kParameterGradient:
      break;
  }
  return "gradient of " + number.name;
}

std::string pass_of(const BadNumber& number) { return number.in_backward ? "backward" : "forward"; }

}  // namespace

void NumberCheck::before_micro_step(int64_t /*steps_done*/, int micro_step) {
  micro_step_ = micro_step;
  looks_ = 0;
  if (progress_) progress_(micro_step);
}

void NumberCheck::before_instruction(int64_t /*steps_done*/,
                                     const PipelineInstruction& instruction) {
  in_backward_ = instruction.op != PipelineOp::kForwardPass;
  if (instruction.buffer < 0 || stages_ == 1) return;
  micro_step_ = instruction.micro_batch;
  const int stage = nth(stages_here_, instruction.chunk);
  passed_ = in_backward_ ? 2 * stages_ - stage : stage;
}

void NumberCheck::look(NumberKind kind, std::string_view place, std::string_view name,
                       const Tensor& numbers) {
  ++looks_;
  if (first_ || !is_looked_at(numbers.dtype())) return;
  Found found;
  copy_.down(numbers, [&](int64_t first, const Tensor& part) {
    on_float(part.dtype(), [&]<class T>() { look_at<T>(part, first, found); });
  });
  if (found.count == 0) return;
  const bool is_gradient =
      kind == NumberKind::kInputGradient || kind == NumberKind::kParameterGradient;
  first_ = {.micro_step = micro_step_,
            .in_backward = in_backward_ || is_gradient,  // the loss makes some in its forward pass
            .kind = kind,
            .module = std::string(place),
            .name = std::string(name),
            .shape = numbers.shape().to_string(),
            .element = found.element,
            .place = place_of(found.element, numbers.shape()),
            .value = value_text(found.value),
            .bad = found.count,
            .numel = numbers.numel(),
            .passed = passed_,
            .looks = looks_};
}

BadNumberReport find_bad_number(Engine& engine, BatchSource& source,
                                std::function<void(int micro_step)> progress) {
  const std::vector<int> here = stages_of(engine);
  const int stages = engine.mesh().size(Axis::kPipe) * narrow<int>(here.size());
  NumberCheck check(engine.stream(), here, stages, std::move(progress));
  ReplayedSource again(source);
  BadNumberReport report{.step = engine.step() + 1, .first = std::nullopt, .ranks = {}};
  report.sums_are_finite = engine.replay_step(again, check, check);
  const std::vector<WireNumber> all = engine.host().gather(std::vector{on_wire(check.first())});
  for (int rank = 0; rank < narrow<int>(all.size()); ++rank) {
    const WireNumber& theirs = nth(all, rank);
    if (theirs.found == 0) continue;
    report.ranks.push_back(rank);
    const std::tuple when(theirs.micro_step, theirs.passed, theirs.looks);
    const auto when_of = [](const BadNumber& one) {
      return std::tuple(one.micro_step, one.passed, one.looks);
    };
    if (report.first && when_of(*report.first) <= when) continue;
    report.first = off_wire(theirs);
    report.rank = rank;
  }
  return report;
}

std::string in_words(const BadNumberReport& report) {
  if (!report.first) {
    return report.sums_are_finite
               ? "made once more, the step was finite everywhere: the hardware may have erred"
               : "made once more, every tensor of every rank was finite, but not the sums of their "
                 "gradients";
  }
  const BadNumber& bad = *report.first;
  std::string others;
  if (report.ranks.size() > 1) {
    others = fmt::format("; {} of all ranks have one", report.ranks.size());
  }
  // The name of a parameter begins with its module.
  const bool is_named =
      bad.kind == NumberKind::kWeight || bad.kind == NumberKind::kParameterGradient;
  return fmt::format(
      "the first bad number is {} in the {}{} ({} pass), rank {}, micro-step {}: element {} of {}, "
      "{} of {} are not finite{}",
      bad.value, tensor_of(bad), is_named ? "" : " in " + bad.module, pass_of(bad), report.rank,
      bad.micro_step, bad.place, bad.shape, bad.bad, bad.numel, others);
}

std::string to_json(const BadNumberReport& report) {
  JsonLine json;
  json.integer("step", report.step).text("words", in_words(report));
  json.boolean("found", report.first.has_value());
  json.boolean("sums_are_finite", report.sums_are_finite);
  if (report.first) {
    const BadNumber& bad = *report.first;
    json.text("module", bad.module).text("tensor", tensor_of(bad)).text("pass", pass_of(bad));
    json.integer("rank", report.rank).integer("micro_step", bad.micro_step);
    json.text("shape", bad.shape).text("element", bad.place).text("value", bad.value);
    json.integer("bad", bad.bad).integer("of", bad.numel);
    json.integer("ranks_with_one", narrow<int64_t>(report.ranks.size()));
  }
  return json.take_object();
}

}  // namespace ds
