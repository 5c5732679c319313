// Rotary position embedding on the CPU. Angles as Hugging Face computes them: frequency and angle
// in fp32, sine and cosine of that fp32 angle.
#include "kernels/cpu/rope.h"

#include <cmath>
#include <utility>
#include <vector>

#include "core/dispatch.h"
#include "core/index.h"

namespace ds::kernels::detail {
namespace {

struct RopeTable {  // of one (theta, D, first position, T)
  float theta = 0;
  int64_t head_dim = 0, first_position = -1, length = 0;
  std::vector<float> cosine, sine;  // [T, D/2]
};

// The last two: layers of one model share them, and a rank may have two pieces of a sequence.
struct RopeTables {
  RopeTable newer, older;
};

const RopeTable& table_for(Stream& stream, float theta, int64_t head_dim, int64_t first_position,
                           int64_t length) {
  auto& tables = stream.state<RopeTables>();
  const auto is_it = [&](const RopeTable& known) {
    return known.theta == theta && known.head_dim == head_dim &&
           known.first_position == first_position && known.length == length;
  };
  if (is_it(tables.newer)) return tables.newer;
  std::swap(tables.newer, tables.older);
  RopeTable& table = tables.newer;
  if (is_it(table)) return table;
  const int64_t half = head_dim / 2;
  table = {theta, head_dim, first_position, length, {}, {}};
  table.cosine.resize(to_size(length * half));
  table.sine.resize(to_size(length * half));
  for (int64_t j = 0; j < half; ++j) {
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(head_dim);
    const float frequency = 1.0F / std::pow(theta, exponent);
    for (int64_t t = 0; t < length; ++t) {
      const double angle = static_cast<float>(first_position + t) * frequency;
      nth(table.cosine, t * half + j) = static_cast<float>(std::cos(angle));
      nth(table.sine, t * half + j) = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

template <class T>
void rotate_heads(T* heads, int64_t count, int64_t half, const float* cosine, const float* sine,
                  float sign) {
  for (int64_t head = 0; head < count; ++head) {
    T* a = heads + head * 2 * half;
    T* b = a + half;
    for (int64_t j = 0; j < half; ++j) {
      const auto x = static_cast<float>(a[j]);
      const auto y = static_cast<float>(b[j]);
      a[j] = static_cast<T>(x * cosine[j] - y * sign * sine[j]);
      b[j] = static_cast<T>(y * cosine[j] + x * sign * sine[j]);
    }
  }
}

}  // namespace

void rope_cpu(Stream& stream, const AttentionShape& shape, float theta, int64_t first_position,
              Rotation rotation, Tensor& qkv) {
  const RopeTable& table = table_for(stream, theta, shape.head_dim, first_position, shape.length);
  const int64_t heads = shape.heads + shape.kv_heads;
  const int64_t half = shape.head_dim / 2;
  const float sign = rotation == Rotation::kForward ? 1.0F : -1.0F;
  stream.pool().parallel_for(shape.batch * shape.length, 4, [&](int64_t begin, int64_t end) {
    on_float(qkv.dtype(), [&]<class T>() {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row % shape.length * half;
        rotate_heads(qkv.data<T>() + row * shape.packed(), heads, half, &nth(table.cosine, at),
                     &nth(table.sine, at), sign);
      }
    });
  });
}

}  // namespace ds::kernels::detail
