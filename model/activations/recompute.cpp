#include "model/activations/recompute.h"

#include <chrono>
#include <optional>
#include <utility>

#include "core/values/index.h"
#include "model/exchange/tensor.h"

namespace ds {
namespace {

// Around one of a segment's two runs: the boundary before it, and its time where that is asked for.
class SegmentRun {
 public:
  SegmentRun(const Context& context, double SegmentTimes::Seconds::*which, std::string_view place)
      : context_(context), which_(which), place_(place) {
    const Recompute& asked = context.pass.recompute;
    if (asked.synchronize || asked.times != nullptr) context.stream.synchronize();
    begin_ = std::chrono::steady_clock::now();
  }
  void end() {
    if (context_.pass.recompute.times == nullptr) return;
    context_.stream.synchronize();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin_;
    context_.pass.recompute.times->places[std::string(place_)].*which_ += taken.count();
  }

 private:
  const Context& context_;
  double SegmentTimes::Seconds::*const which_;
  const std::string_view place_;
  std::chrono::steady_clock::time_point begin_;
};

// An input, or this rank's part of it (Pa of ZeRO-R; Rajbhandari et al., arXiv 1910.02054, section
// 6.1).
struct KeptInput {
  Saved saved;                 // empty where an input is undefined
  std::optional<Shape> whole;  // of what `saved` is a part of
};

KeptInput keep_input(Context& context, const Tensor& value) {
  if (!value.defined()) return {};
  if (!context.pass.recompute.partitions || !has_parts(context)) {
    return {.saved = context.save(value), .whole = std::nullopt};
  }
  return {.saved = context.save(part_of(context, value)), .whole = value.shape()};
}

Tensor take_input(Context& context, KeptInput& kept) {
  Tensor value = take(kept.saved);
  return kept.whole ? whole_of(context, value, *kept.whole) : value;
}

// What the closure has instead of what lies between a segment's inputs and outputs.
struct Kept {
  std::vector<KeptInput> inputs;
  Segment segment;
};

void run_again(Context& context, Kept& kept, GradientFlow& flow) {
  Tape tape(nullptr, context.numbers);
  context.tape = &tape;
  context.pass.recompute.again = true;
  std::vector<Var> inputs;
  for (int i = 0; i < narrow<int>(kept.inputs.size()); ++i) {
    KeptInput& input = nth(kept.inputs, i);
    if (input.saved == nullptr) {
      inputs.emplace_back();
    } else if (flow.wanted(i)) {
      inputs.push_back(tape.watch(take_input(context, input)));
    } else {
      inputs.push_back({take_input(context, input), Var::kConstant});
    }
  }
  std::vector<int> places;  // on the tape, of those inputs
  for (const Var& input : inputs) places.push_back(input.slot);
  const std::vector<Var> outputs = kept.segment(context, std::move(inputs));
  for (int i = 0; i < narrow<int>(outputs.size()); ++i) {
    Tensor gradient = flow.take(i);
    if (gradient.defined()) tape.seed(context.stream, nth(outputs, i), std::move(gradient));
  }
  flow.run(tape);
  for (int i = 0; i < narrow<int>(places.size()); ++i) {
    const Var input{.value = {}, .slot = nth(places, i)};
    if (input.slot == Var::kConstant) continue;
    Tensor gradient = tape.take_gradient(input);
    if (gradient.defined()) flow.give(i, std::move(gradient));
  }
}

}  // namespace

std::vector<Var> recompute(Context& context, std::string_view name, std::vector<Var> inputs,
                           Segment segment) {
  Context inside = context;
  inside.tape = nullptr;
  inside.pass.recompute.part = RecomputedPart::kNone;  // all of the segment is made again anyway
  inside.pass.recompute.again = false;
  if (!context.differentiates()) return segment(inside, std::move(inputs));
  Kept kept{.inputs = {}, .segment = std::move(segment)};
  for (const Var& input : inputs) kept.inputs.push_back(keep_input(context, input.value));
  const std::string_view place = context.stream.label();
  SegmentRun forward(context, &SegmentTimes::Seconds::forward, place);
  std::vector<Var> constants;
  for (Var& input : inputs) constants.push_back({std::exchange(input.value, {}), Var::kConstant});
  std::vector<Var> results = kept.segment(inside, std::move(constants));
  forward.end();
  std::vector<Tensor> outputs;
  for (Var& result : results) outputs.push_back(std::move(result.value));
  auto backward = [inside, place, kept = std::move(kept)](GradientFlow& flow) mutable {
    SegmentRun run(inside, &SegmentTimes::Seconds::backward, place);
    run_again(inside, kept, flow);
    run.end();
  };
  return context.record(name, inputs, std::move(outputs), std::move(backward));
}

Var recompute_part(Context& context, RecomputedPart part, Var input,
                   std::function<Var(Context&, Var)> segment) {
  if (context.pass.recompute.part != part) {
    Context inside = context.part_of_segment(part == RecomputedPart::kMlp);
    return segment(inside, std::move(input));
  }
  std::vector<Var> inputs{std::move(input)};
  return recompute(context, "recompute", std::move(inputs),
                   [segment = std::move(segment)](Context& inside, std::vector<Var> in) {
                     return std::vector<Var>{segment(inside, std::move(in.front()))};
                   })
      .front();
}

}  // namespace ds
