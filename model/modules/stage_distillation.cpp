// What a stage learns from a teacher: it asks first, while none of its own activations is there.
#include <algorithm>
#include <utility>

#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "model/exchange/tensor.h"
#include "model/modules/stage.h"

namespace ds {

// A state that is to be matched comes out of a segment.
void Stage::learn_from(Teaching teaching) {
  DS_CHECK(is_first() && is_last() && teaching.teacher != nullptr,
           "stage: one that has not all layers cannot learn from a teacher");
  for (const MatchedBlocks& pair : teaching.blocks) {
    const auto block = to_size(pair.own);
    DS_CHECK(block >= 1 && block <= parts_.blocks.size(), "stage: block {} of {}", block,
             parts_.blocks.size());
    const auto around = std::ranges::find_if(segments_, [&](const Segment& segment) {
      return segment.begin < block && block < segment.end;
    });
    if (around == segments_.end()) continue;  // one ends there already
    Segment rest = *around;
    around->end = rest.begin = block;
    segments_.insert(around + 1, rest);
  }
  teaching_ = std::move(teaching);
}

TaughtLogits Stage::answer(Context& context, StageInput input, const BehindSegment& behind) const {
  const SequenceRows rows{.batch = input.rows.batch, .length = input.rows.length};
  Residual residual = run_layers(context, std::move(input), behind);
  Var y = last_state(context, residual);
  residual = {};
  y = head_input(context, head(), std::move(y), rows);
  if (!head().logits.is_whole) y = enter_tensor(context, std::move(y));
  return {.x = std::move(y.value), .spec = head().logits};
}

Stage::Lesson Stage::teach(Context& context, const StageInput& input, float grad_scale) const {
  const Span span(context.stream, "teacher");
  Lesson lesson{.rows = {.targets = input.batch.tensor(batch_field::kTargets),
                         .row_weights = input.batch.find(batch_field::kWeights)},
                .grad_scale = grad_scale};
  const Stage& teacher = *teaching_->teacher;
  Context asking = context.with(*context.store, nullptr);
  asking.pass.mode = RunMode::kEval;
  asking.losses = nullptr;
  const auto keep = [&](Context& inside, int64_t block, Residual& stream) {
    for (const MatchedBlocks& pair : teaching_->blocks) {
      if (pair.teacher != block) continue;
      stream = {.sum = joined(inside, std::move(stream)), .branch = {}};
      lesson.states[pair.own] = stream.sum.value;
    }
  };
  lesson.logits = teacher.answer(asking, input, keep);
  lesson.logits.rule = teaching_->rule;
  return lesson;
}

void Stage::match(Context& context, int64_t block, Residual& stream, Lesson& lesson) const {
  const auto state = lesson.states.find(block);
  if (state == lesson.states.end()) return;
  stream = {.sum = joined(context, std::move(stream)), .branch = {}};
  Tensor losses =
      hidden_losses(context, stream.sum,
                    {.teacher = std::move(state->second), .weight = teaching_->blocks_weight},
                    lesson.rows, lesson.grad_scale);
  lesson.states.erase(state);
  if (lesson.hidden.defined()) {
    kernels::add(context.stream, losses, lesson.hidden, lesson.hidden);
  } else {
    lesson.hidden = std::move(losses);
  }
}

Tensor Stage::losses_of_lesson(Context& context, Var y, Lesson& lesson) const {
  if (!head().logits.is_whole) y = enter_tensor(context, std::move(y));
  const TaughtLogits logits = std::exchange(lesson.logits, {});
  Tensor losses = distilled_cross_entropy(context, std::move(y), head().logits, lesson.rows, logits,
                                          lesson.grad_scale);
  if (lesson.hidden.defined()) {
    context.report_loss(kHiddenFigure, lesson.hidden);
    kernels::add(context.stream, lesson.hidden, losses, losses);
  }
  return losses;
}

}  // namespace ds
