// ZenFlow by its definition, element by element and without ranks, for tests that compare with it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/values/shape.h"
#include "zero/zenflow/schedule.h"

namespace ds::testing {

struct ReferenceAdam {
  double lr = 0.01, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};

class ZenflowReference {
 public:
  struct Param {
    std::vector<double> weight, m, v;  // as they would be without delay
    std::vector<double> seen;          // weights that are computed with
    std::vector<double> sum;           // of gradients that wait
    std::vector<bool> important;       // by column; of what is no matrix: all
    double important_sizes = 0, rest_sizes = 0;
    int64_t rows = 1, columns = 1;
    bool is_matrix = false;
    bool is_important(int64_t element) const {
      return !is_matrix || important[static_cast<size_t>(element % columns)];
    }
    bool has_rest() const;
  };
  using Value = std::function<double(int64_t param, int64_t element)>;

  ZenflowReference(const ZenflowOptions& options, const ReferenceAdam& adam,
                   const std::vector<Shape>& shapes, const Value& start);

  // The next update, whose gradients come from there.
  void update(const Value& gradient);
  const std::vector<Param>& params() const { return params_; }
  int64_t intervals() const { return intervals_; }  // that have ended

 private:
  void choose(const Value& gradient);
  void add(const Value& gradient);
  bool is_due() const;
  void end_interval(bool late);
  void step(Param& param, int64_t element, double gradient) const;

  const ZenflowOptions options_;
  const ReferenceAdam adam_;
  std::vector<Param> params_;
  int64_t updates_ = 0, waiting_ = 0, intervals_ = 0;
};

}  // namespace ds::testing
