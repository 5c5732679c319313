// The first number that is not finite in a step that came to nothing: which module made it, in
// which tensor, on which rank, in which micro-step. The step is made once more, without its update
// and with a look at every weight, result and gradient. Weights, state, the loader's position and
// metrics stay as they were.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/device/host_copy.h"
#include "model/pass/number_watch.h"
#include "train/engine.h"
#include "train/settings/observers.h"

namespace ds {

struct BadNumber {
  int micro_step = 0;
  bool in_backward = false;  // pass
  NumberKind kind{};
  std::string module;  // "transformer.h.3.attn"
  std::string name;    // of the function or the parameter
  std::string shape;
  int64_t element = 0;  // the first bad one, counted flat
  std::string place;    // of that: "[3, 17]"
  std::string value;    // "nan", "inf", "-inf"
  int64_t bad = 0, numel = 0;
  // Ranks compare by these: `passed` is the place of the stage in the order in which a micro-batch
  // passes the pipeline, forward and back, and `looks` is the number of the look.
  int64_t passed = 0;
  int64_t looks = 0;
};

// What one rank sees of the step: it stops looking at the first bad number.
class NumberCheck final : public NumberWatch, public StepObserver {
 public:
  // Checks a rank whose chunks are the virtual stages `stages_here` of `stages`. `progress` is
  // called as micro-steps begin.
  NumberCheck(Stream& stream, std::vector<int> stages_here, int stages,
              std::function<void(int micro_step)> progress)
      : copy_(stream),
        stages_here_(std::move(stages_here)),
        stages_(stages),
        progress_(std::move(progress)) {}

  void before_micro_step(int64_t steps_done, int micro_step) override;
  void before_instruction(int64_t steps_done, const PipelineInstruction& instruction) override;
  void look(NumberKind kind, std::string_view place, std::string_view name,
            const Tensor& numbers) override;

  const std::optional<BadNumber>& first() const { return first_; }

 private:
  HostCopy copy_;
  const std::vector<int> stages_here_;  // by chunk
  const int stages_;
  const std::function<void(int)> progress_;
  int micro_step_ = 0;
  bool in_backward_ = false;
  int64_t passed_ = 0;
  int64_t looks_ = 0;
  std::optional<BadNumber> first_;
};

// What all ranks came to; equal on each of them.
struct BadNumberReport {
  int64_t step = 0;
  std::optional<BadNumber> first;  // nothing: every number of every rank was finite
  int rank = 0;                    // whose that is
  std::vector<int> ranks;          // who found one, the first among them
  bool sums_are_finite = true;     // of the gradients and losses of all ranks, this time
};

// Collective, of an engine whose last step was refused (NotFinite).
BadNumberReport find_bad_number(Engine& engine, BatchSource& source,
                                std::function<void(int micro_step)> progress);

std::string in_words(const BadNumberReport& report);
std::string to_json(const BadNumberReport& report);  // one line

}  // namespace ds
