#include "kernels/cuda/on_host_mma.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "core/fibre/sanitizers.h"
#include "core/values/dtype.h"
#include "core/values/index.h"
#include "kernels/cuda/on_host.h"

namespace ds::cuda::on_host {
namespace {

constexpr unsigned kWholeWarp = 0xffffffffU;

std::atomic<bool> sums_are_truncated{false};

struct MatrixRows {
  const void* row;
  std::array<uint32_t, 4>& words;
};

template <class T>
T& of_lane(const Operands& operands, int lane) {
  return *static_cast<T*>(nth(operands, lane));
}

template <bool kTransposed>
void load_for_all(unsigned /*mask*/, const Operands& operands) {
  const auto element = [&](int matrix, int row, int column) {
    const auto* const from =
        static_cast<const std::byte*>(of_lane<MatrixRows>(operands, 8 * matrix + row).row);
    uint16_t bits = 0;
    std::memcpy(&bits, from + to_size(2 * column), sizeof(bits));
    return uint32_t{bits};
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane / 4;
    const int t = lane % 4;
    for (int matrix = 0; matrix < 4; ++matrix) {
      const uint32_t low = kTransposed ? element(matrix, 2 * t, g) : element(matrix, g, 2 * t);
      const uint32_t high =
          kTransposed ? element(matrix, 2 * t + 1, g) : element(matrix, g, 2 * t + 1);
      nth(of_lane<MatrixRows>(operands, lane).words, matrix) = low | high << 16;
    }
  }
}

struct Product {
  const std::array<uint32_t, 4>& a;
  const std::array<uint32_t, 2>& b;
  std::array<float, 4>& sums;
};

// The elements of a word of an operand, in the order of the depth.
template <class T>
struct Elements {
  static constexpr int kPerWord = 2;
  static float at(uint32_t word, int i) {
    T value;
    value.bits = static_cast<uint16_t>(word >> (16 * i));
    return static_cast<float>(value);
  }
};
struct Tf32 {};
template <>
struct Elements<Tf32> {
  static constexpr int kPerWord = 1;
  static float at(uint32_t word, int /*i*/) { return std::bit_cast<float>(word & 0xffffe000U); }
};

float sum_in_order(std::span<const float> products, float sum) {
  float total = 0;
  for (const float product : products) total += product;
  return sum + total;
}

// Toward zero, to a multiple of `unit`; `value` has at most 24 bits.
double cut(float value, double unit) {
  return std::trunc(static_cast<double>(value) / unit) * unit;
}

// Multiples of one power of two, which a double adds exactly.
float sum_truncated(std::span<const float> products, float sum) {
  float largest = std::abs(sum);
  for (const float product : products) largest = std::max(largest, std::abs(product));
  if (largest == 0 || !std::isfinite(sum_in_order(products, sum))) {
    return sum_in_order(products, sum);
  }
  const double unit = std::ldexp(1.0, std::ilogb(largest) - 24);
  double total = cut(sum, unit);
  for (const float product : products) total += cut(product, unit);
  const auto nearest = static_cast<float>(total);
  const bool is_beyond = std::abs(static_cast<double>(nearest)) > std::abs(total);
  return is_beyond ? std::nextafter(nearest, 0.0F) : nearest;
}

// Words of A: [g] and [g + 8] of the depth's first half, then of its second; of B: first, second.
template <class T>
void multiply_for_all(unsigned /*mask*/, const Operands& operands) {
  constexpr int kPerWord = Elements<T>::kPerWord;
  constexpr int kDepth = 8 * kPerWord;
  std::array<std::array<float, kDepth>, 16> a{};
  std::array<std::array<float, kDepth>, 8> b{};
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto& own = of_lane<Product>(operands, lane);
    const int g = lane / 4;
    const int k = lane % 4 * kPerWord;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < kPerWord; ++i) {
        const int depth = half * kDepth / 2 + k + i;
        nth(nth(a, g), depth) = Elements<T>::at(nth(own.a, 2 * half), i);
        nth(nth(a, g + 8), depth) = Elements<T>::at(nth(own.a, 2 * half + 1), i);
        nth(nth(b, g), depth) = Elements<T>::at(nth(own.b, half), i);
      }
    }
  }
  const bool truncates = sums_are_truncated.load(std::memory_order_relaxed);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const auto& row = nth(a, lane / 4 + i / 2 * 8);
      const auto& column = nth(b, lane % 4 * 2 + i % 2);
      std::array<float, kDepth> products{};
      for (int k = 0; k < kDepth; ++k) nth(products, k) = nth(row, k) * nth(column, k);
      float& sum = nth(of_lane<Product>(operands, lane).sums, i);
      sum = truncates ? sum_truncated(products, sum) : sum_in_order(products, sum);
    }
  }
}

}  // namespace

TruncatedSums::TruncatedSums() { sums_are_truncated = true; }
TruncatedSums::~TruncatedSums() { sums_are_truncated = false; }

void load_matrices(const void* row, bool transposed, std::array<uint32_t, 4>& words) {
  require_shared(row, 16, "ldmatrix");
  // Each lane reads its own row here, before one lane executes the load for all.
  sanitizers::reads(row, 16, __builtin_return_address(0));
  MatrixRows own{.row = row, .words = words};
  together(kWholeWarp, transposed ? load_for_all<true> : load_for_all<false>, &own);
}

template <class T>
void multiply(const std::array<uint32_t, 4>& a, const std::array<uint32_t, 2>& b,
              std::array<float, 4>& sums) {
  Product own{.a = a, .b = b, .sums = sums};
  together(kWholeWarp, multiply_for_all<T>, &own);
}
template void multiply<BF16>(const std::array<uint32_t, 4>&, const std::array<uint32_t, 2>&,
                             std::array<float, 4>&);
template void multiply<F16>(const std::array<uint32_t, 4>&, const std::array<uint32_t, 2>&,
                            std::array<float, 4>&);

void multiply_tf32(const std::array<uint32_t, 4>& a, const std::array<uint32_t, 2>& b,
                   std::array<float, 4>& sums) {
  Product own{.a = a, .b = b, .sums = sums};
  together(kWholeWarp, multiply_for_all<Tf32>, &own);
}

}  // namespace ds::cuda::on_host
