#include "train/watch/best_evaluation.h"

#include <cmath>

#include "config/reader/value.h"
#include "train/measure/state_fields.h"

namespace ds {

bool BestEvaluation::hear(int64_t step, double loss) {
  const bool is_better = std::isfinite(loss) && (!loss_ || loss < *loss_);
  const bool is_enough = is_better && (!loss_ || *loss_ - loss > rule_.threshold);
  worse_ = is_enough ? 0 : worse_ + 1;
  if (!is_better) return false;
  loss_ = loss;
  step_ = step;
  return true;
}

std::string BestEvaluation::text(const std::string& measure) const {
  if (!loss_ && worse_ == 0) return "";
  Value out = Value::object();
  out.set("step", Value::integer(step_));
  if (loss_) out.set("loss", Value::number(*loss_));
  out.set("worse", Value::integer(worse_));
  out.set("tag", Value::string(tag_));
  out.set("measure", Value::string(measure));
  return to_compact_json(out);
}

bool BestEvaluation::restore(const std::string& text, const std::string& measure) {
  loss_.reset();
  step_ = worse_ = 0;
  tag_.clear();
  if (text.empty()) return true;
  const StateFields in(text, "the best evaluation of a checkpoint");
  if (in.text("measure") != measure) return false;
  if (in.has("loss")) loss_ = in.number("loss");
  step_ = in.integer("step");
  worse_ = in.integer("worse");
  tag_ = in.text("tag");
  if (step_ < 0 || worse_ < 0) in.refuse("counts below 0");
  return true;
}

}  // namespace ds
