// What `dslaunch eval` tells of the scores of texts or tokens, by what the scores are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/families/list.h"
#include "config/reader/value.h"
#include "model/pass/context.h"

namespace ds {

// Hears of all scores, and then tells how right they were. At least one has to be there.
class ScoreReport : public ScoreObserver {
 public:
  virtual int64_t scored() const = 0;  // rows
  virtual void add_to(Value& object) const = 0;
  // Lines, each with a name of up to 14 letters before it. `samples`: that there were.
  virtual std::string text(int64_t samples) const = 0;
};

// For a model that scores classes.
std::unique_ptr<ScoreReport> make_score_report(const ModelConfig& model);
// What its loss is measured in.
std::string_view loss_unit(const ModelConfig& model);

}  // namespace ds
