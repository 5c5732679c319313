// Inputs of the communicator suite, and what collectives must make of them: computed one element at
// a time in rank order, in fp32 for floats of up to 32 bits.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "comm/contract/communicator.h"

namespace ds::test {

inline constexpr std::array kDTypes{DType::kF32, DType::kBF16, DType::kF16, DType::kF64,
                                    DType::kI32, DType::kI64,  DType::kU8,  DType::kI8};

// Calls f.operator()<T>() with the C++ type of the dtype.
template <class F>
void with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kBF16:
      return f.template operator()<BF16>();
    case DType::kF16:
      return f.template operator()<F16>();
    case DType::kF64:
      return f.template operator()<double>();
    case DType::kI32:
      return f.template operator()<int32_t>();
    case DType::kI64:
      return f.template operator()<int64_t>();
    case DType::kU8:
      return f.template operator()<uint8_t>();
    case DType::kI8:
      return f.template operator()<int8_t>();
  }
}

inline bool is_whole_number(DType dtype) {
  bool whole = false;
  with_type(dtype, [&]<class T>() { whole = std::is_integral_v<T>; });
  return whole;
}

// Numbers whose sums round, so that the order of summation shows; small for integers.
template <class T>
T value(int rank, int64_t i) {
  uint64_t x = static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(rank + 1);
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 29;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(x % 5 + 1);
  } else {
    const double unit = static_cast<double>(x >> 11) * 0x1p-53;
    return static_cast<T>(static_cast<float>((unit - 0.5) * (i % 3 == 0 ? 16.0 : 1.0)));
  }
}

inline Tensor values(int rank, DType dtype, int64_t numel, Stream& stream) {
  Tensor t = Tensor::empty({numel}, dtype, stream);
  with_type(dtype, [&]<class T>() {
    for (int64_t i = 0; i < numel; ++i) t.data<T>()[i] = value<T>(rank, i);
  });
  return t;
}

template <class Sum>
Sum combine(ReduceOp op, Sum a, Sum b) {
  switch (op) {
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kProduct:
      return a * b;
    default:
      return a + b;
  }
}

// Elements [begin, begin + numel) of the reduction over `size` ranks, as bytes.
inline std::vector<std::byte> reduced(int size, DType in, DType out, ReduceOp op, int64_t begin,
                                      int64_t numel) {
  std::vector<std::byte> bytes(static_cast<size_t>(numel) * size_of(out));
  with_type(in, [&]<class In>() {
    using Sum = std::conditional_t<std::is_integral_v<In>, int64_t,
                                   std::conditional_t<std::is_same_v<In, double>, double, float>>;
    for (int64_t i = 0; i < numel; ++i) {
      auto sum = static_cast<Sum>(value<In>(0, begin + i));
      for (int r = 1; r < size; ++r)
        sum = combine(op, sum, static_cast<Sum>(value<In>(r, begin + i)));
      if (op == ReduceOp::kAverage) sum /= static_cast<Sum>(size);
      std::byte* const to = bytes.data() + static_cast<size_t>(i) * size_of(out);
      if (in == out) {
        const auto result = static_cast<In>(sum);
        std::memcpy(to, &result, sizeof(result));
      } else {
        const auto result = static_cast<float>(sum);
        std::memcpy(to, &result, sizeof(result));
      }
    }
  });
  return bytes;
}

inline double as_double(const Tensor& t, int64_t i) {
  double out = 0;
  with_type(t.dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>) {
      out = static_cast<double>(t.data<T>()[i]);
    } else {
      out = static_cast<double>(static_cast<float>(t.data<T>()[i]));
    }
  });
  return out;
}

// A Reach is where element i of a sum, an average or a product over `size` ranks may lie if it is
// made in any order, every step rounded to the dtype of the result (Higham, Accuracy and Stability
// of Numerical Algorithms, section 4.2): |error| <= n u sum |x| for sums, n u |product| for
// products; twice that covers the terms of higher order and the reference's own rounding.
struct Reach {
  double exact = 0;
  double slack = 0;
};

inline Reach reach_of_any_order(int size, DType in, DType out, ReduceOp op, int64_t i) {
  const double unit = out == DType::kF64    ? 0x1p-53
                      : out == DType::kF32  ? 0x1p-24
                      : out == DType::kBF16 ? 0x1p-8
                                            : 0x1p-11;
  const double smallest = out == DType::kF16 ? 0x1p-24 : 0x1p-126;  // where relative errors end
  const bool product = op == ReduceOp::kProduct;
  Reach reach{.exact = product ? 1.0 : 0.0, .slack = product ? 1.0 : 0.0};
  with_type(in, [&]<class T>() {
    for (int rank = 0; rank < size; ++rank) {
      double x = 0;
      if constexpr (std::is_same_v<T, double>) {
        x = value<T>(rank, i);
      } else {
        x = static_cast<double>(static_cast<float>(value<T>(rank, i)));
      }
      reach.exact = product ? reach.exact * x : reach.exact + x;
      reach.slack = product ? reach.slack * std::abs(x) : reach.slack + std::abs(x);
    }
  });
  if (op == ReduceOp::kAverage) {
    reach.exact /= size;
    reach.slack /= size;
  }
  reach.slack = 2 * (size + 1) * (unit * reach.slack + smallest);
  return reach;
}

}  // namespace ds::test
