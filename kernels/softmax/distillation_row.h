// What distillation has of a row, and what it makes of that, for both halves of
// kernels/softmax/distillation.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/softmax/distillation_operands.h"

namespace ds::kernels::detail {

// A rule in the numbers that rows are computed with.
struct DistillationScales {
  explicit DistillationScales(const DistillationRule& rule)
      : alpha(static_cast<float>(rule.alpha)),
        beta(static_cast<float>(rule.beta)),
        temperature(static_cast<float>(rule.temperature)),
        inverse(static_cast<float>(1.0 / rule.temperature)) {}
  float alpha, beta, temperature, inverse;
};

// Sums over the columns of a row that were seen so far, each relative to a largest logit.
struct DistilledRow {
  // Below all logits, and finite: minus infinity less itself would be no number.
  static constexpr float kLowest = -std::numeric_limits<float>::max();

  float largest = kLowest;
  float total = 0;      // of e^(z - largest)
  float hot_total = 0;  // of e^((z - largest) / T)
  float at_target = 0;  // the student's logit
  float teacher_largest = kLowest;
  float teacher_total = 0;  // of e^((t - teacher_largest) / T)
  float apart = 0;          // of these, each times ((t - teacher_largest) - (z - largest)) / T

  // What the totals are multiplied by where largest logits are others. Each half has exponentials
  // of its own.
  struct Factors {
    float total, hot_total, teacher_total;
  };
  constexpr void move_to(float to, float teacher_to, float inverse, const Factors& by) {
    const float further = (teacher_largest - teacher_to) - (largest - to);
    total *= by.total;
    hot_total *= by.hot_total;
    // Nothing that it has counts any more, however far it is.
    apart = by.teacher_total == 0 ? 0.0F
                                  : (apart + further * inverse * teacher_total) * by.teacher_total;
    teacher_total *= by.teacher_total;
    largest = to;
    teacher_largest = teacher_to;
  }

  static constexpr DistilledRow of_numbers(const float* numbers) {
    return {.largest = numbers[0],
            .total = numbers[1],
            .hot_total = numbers[2],
            .at_target = numbers[3],
            .teacher_largest = numbers[4],
            .teacher_total = numbers[5],
            .apart = numbers[6]};
  }
  constexpr void to_numbers(float* numbers) const {
    const float all[kNumbersOfDistilledPart] = {
        largest, total, hot_total, at_target, teacher_largest, teacher_total, apart};
    for (int64_t i = 0; i < kNumbersOfDistilledPart; ++i) numbers[i] = all[i];
  }
};

// The row of which each rank has told its numbers, `stride` from one rank to the next.
constexpr DistilledRow join_distilled(const float* numbers, int64_t ranks, int64_t stride,
                                      float inverse) {
  DistilledRow whole;
  for (int64_t r = 0; r < ranks; ++r) {
    const DistilledRow part = DistilledRow::of_numbers(numbers + r * stride);
    whole.largest = part.largest > whole.largest ? part.largest : whole.largest;
    whole.teacher_largest =
        part.teacher_largest > whole.teacher_largest ? part.teacher_largest : whole.teacher_largest;
  }
  for (int64_t r = 0; r < ranks; ++r) {
    DistilledRow part = DistilledRow::of_numbers(numbers + r * stride);
    const float lower = part.largest - whole.largest;
    const float teacher_lower = part.teacher_largest - whole.teacher_largest;
    part.move_to(whole.largest, whole.teacher_largest, inverse,
                 {.total = std::exp(lower),
                  .hot_total = std::exp(lower * inverse),
                  .teacher_total = std::exp(teacher_lower * inverse)});
    whole.total += part.total;
    whole.hot_total += part.hot_total;
    whole.at_target += part.at_target;
    whole.teacher_total += part.teacher_total;
    whole.apart += part.apart;
  }
  return whole;
}

// What a row without weight has, and, as NaN, one whose target is none.
struct DistilledLoss {
  float loss = 0;
  float divergence = 0;  // T^2 KL
};
constexpr DistilledLoss loss_of(const DistilledRow& row, const DistillationScales& scales,
                                float weight) {
  const float kl = row.apart / row.teacher_total + std::log(row.hot_total / row.teacher_total);
  const float divergence = scales.temperature * scales.temperature * kl;
  const float cross_entropy = std::log(row.total) + row.largest - row.at_target;
  return {(scales.alpha * cross_entropy + scales.beta * divergence) * weight, divergence * weight};
}

// The gradient of a logit from e = e^(z - largest), hot = e^((z - largest) / T) and
// soft = e^((t - teacher_largest) / T). Equal exponentials of equal sums cancel exactly.
struct DistilledGains {
  // `scale`: of all gradients of the row.
  constexpr DistilledGains(const DistilledRow& row, const DistillationScales& scales, float scale)
      : inverse(scales.inverse),
        total(row.total),
        cross(scale * scales.alpha),
        plain(cross / row.total),
        hot(scale * scales.beta * scales.temperature / row.hot_total),
        ratio(row.hot_total / row.teacher_total) {}
  constexpr float of_other(float e, float hot_e, float soft) const {
    return e * plain + (hot_e - soft * ratio) * hot;
  }
  constexpr float of_target(float e, float hot_e, float soft) const {
    return (e / total - 1.0F) * cross + (hot_e - soft * ratio) * hot;
  }

  float inverse, total, cross, plain, hot, ratio;
};

}  // namespace ds::kernels::detail
