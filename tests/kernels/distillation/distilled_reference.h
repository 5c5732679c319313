// Distillation by its formulas in fp64, and operands for tests of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/softmax/distillation.h"
#include "tests/support/reference.h"

namespace ds::reference {

struct Distilled {
  Values losses, divergences, gradients;
};

// Rows of logits as they are given; a teacher has columns [0, teacher_columns).
struct DistilledRows {
  Values student, teacher;
  int64_t columns, teacher_columns;
  std::vector<int32_t> targets;
  Values weights{};  // none: all are 1
  double softcap = 0;
  double grad_scale = 1;
};

inline Values log_softmax(const double* x, int64_t columns, double temperature) {
  const double largest = *std::max_element(x, x + columns);
  double total = 0;
  for (int64_t v = 0; v < columns; ++v) total += std::exp((x[v] - largest) / temperature);
  Values out;
  for (int64_t v = 0; v < columns; ++v) {
    out.push_back((x[v] - largest) / temperature - std::log(total));
  }
  return out;
}

inline Distilled distilled(const DistilledRows& rows, const kernels::DistillationRule& rule) {
  const double heat = rule.temperature;
  Distilled out{.losses = Values(rows.targets.size()),
                .divergences = Values(rows.targets.size()),
                .gradients = Values(rows.student.size())};
  for (size_t row = 0; row < rows.targets.size(); ++row) {
    const double weight = rows.weights.empty() ? 1 : rows.weights[row];
    const int32_t target = rows.targets[row];
    if (target < 0 || weight == 0) continue;
    const size_t begin = row * static_cast<size_t>(rows.columns);
    const double* const z = &rows.student[begin];
    const double* const t = &rows.teacher[row * static_cast<size_t>(rows.teacher_columns)];
    const Values plain = log_softmax(z, rows.columns, 1), q = log_softmax(z, rows.columns, heat);
    const Values p = log_softmax(t, rows.teacher_columns, heat);
    double divergence = 0;
    for (size_t v = 0; v < p.size(); ++v) divergence += std::exp(p[v]) * (p[v] - q[v]);
    divergence *= heat * heat;
    out.divergences[row] = weight * divergence;
    out.losses[row] =
        weight * (rule.alpha * -plain[static_cast<size_t>(target)] + rule.beta * divergence);
    for (size_t v = 0; v < plain.size(); ++v) {
      const double one = static_cast<int64_t>(v) == target ? 1 : 0;
      const double soft = v < p.size() ? std::exp(p[v]) : 0;
      const double slope = rows.softcap == 0 ? 1 : 1 - z[v] * z[v] / (rows.softcap * rows.softcap);
      out.gradients[begin + v] =
          weight * rows.grad_scale * slope *
          (rule.alpha * (std::exp(plain[v]) - one) + rule.beta * heat * (std::exp(q[v]) - soft));
    }
  }
  return out;
}

// Every third row is ignored.
inline std::vector<int32_t> distilled_targets(int64_t rows, int64_t vocabulary) {
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < rows; ++i) {
    targets.push_back(i % 3 == 2 ? -100
                                 : static_cast<int32_t>((i * 7 + vocabulary - 1) % vocabulary));
  }
  return targets;
}

inline kernels::DistilledCrossEntropyArgs distilled_args(const Tensor& logits,
                                                         const Tensor& teacher,
                                                         const std::vector<int32_t>& targets,
                                                         const kernels::DistillationRule& rule,
                                                         Stream& stream) {
  const auto rows = static_cast<int64_t>(targets.size());
  const auto floats = [&] { return Tensor::empty({rows}, DType::kF32, stream); };
  return {.student = {.logits = kernels::matrix(logits, rows, logits.numel() / rows),
                      .targets = tokens_of(targets, stream),
                      .losses = floats(),
                      .grad_scale = 0.25F},
          .teacher = kernels::matrix(teacher, rows, teacher.numel() / rows),
          .rule = rule,
          .divergences = floats()};
}

// What the kernel is given, read back; before it has written gradients.
inline DistilledRows rows_of(const kernels::DistilledCrossEntropyArgs& args,
                             const std::vector<int32_t>& targets) {
  return {.student = values_of(args.student.logits.tensor),
          .teacher = values_of(args.teacher.tensor),
          .columns = args.student.logits.columns,
          .teacher_columns = args.teacher.columns,
          .targets = targets,
          .weights =
              args.student.row_weights.defined() ? values_of(args.student.row_weights) : Values(),
          .softcap = double{args.student.softcap},
          .grad_scale = double{args.student.grad_scale}};
}

}  // namespace ds::reference
