// Rotary position embedding on the CPU. Angles as Hugging Face computes them: frequency and angle
// in fp32, sine and cosine of that fp32 angle.
#include "kernels/rotary/rope_cpu.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "core/device/dispatch.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::kernels::detail {
namespace {

// Sines and cosines of positions [first, first + length).
struct Angles {
  RotaryTable table{};
  int64_t first = -1, length = 0;
  std::vector<float> cosine, sine;  // [length, pairs]
};

// The last two: layers of one model share them, and a rank may have two pieces of a sequence.
struct KnownAngles {
  Angles newer, older;
};

bool is_same(const RotaryTable& a, const RotaryTable& b) {
  return a.factor == b.factor && a.frequencies == b.frequencies;
}

const Angles& angles_for(Stream& stream, const RotaryTable& table, int64_t first, int64_t length) {
  auto& known = stream.state<KnownAngles>();
  const auto is_it = [&](const Angles& angles) {
    return angles.first == first && angles.length >= length && is_same(angles.table, table);
  };
  if (is_it(known.newer)) return known.newer;
  std::swap(known.newer, known.older);
  Angles& angles = known.newer;
  if (is_it(angles)) return angles;
  const auto pairs = narrow<int64_t>(table.frequencies.size());
  angles = {table, first, length, {}, {}};
  angles.cosine.resize(to_size(length * pairs));
  angles.sine.resize(to_size(length * pairs));
  for (int64_t j = 0; j < pairs; ++j) {
    for (int64_t t = 0; t < length; ++t) {
      const double angle = static_cast<float>(first + t) * nth(table.frequencies, j);
      nth(angles.cosine, t * pairs + j) = static_cast<float>(std::cos(angle)) * table.factor;
      nth(angles.sine, t * pairs + j) = static_cast<float>(std::sin(angle)) * table.factor;
    }
  }
  return angles;
}

// How the heads of a row turn.
struct Turn {
  int64_t heads, head_dim, pairs;
  int64_t step, apart;  // from one pair to the next, and of a pair's elements
  float sign;
};

template <class T>
void turn_heads(const Turn& turn, T* heads, const float* cosine, const float* sine) {
  for (int64_t head = 0; head < turn.heads; ++head) {
    T* a = heads + head * turn.head_dim;
    T* b = a + turn.apart;
    for (int64_t j = 0; j < turn.pairs; ++j) {
      const auto x = static_cast<float>(a[j * turn.step]);
      const auto y = static_cast<float>(b[j * turn.step]);
      a[j * turn.step] = static_cast<T>(x * cosine[j] - y * turn.sign * sine[j]);
      b[j * turn.step] = static_cast<T>(y * cosine[j] + x * turn.sign * sine[j]);
    }
  }
}

// Positions from 0 to the last one of these.
int64_t positions_of(std::span<const int32_t> rows) {
  const auto [least, most] = std::ranges::minmax(rows);
  DS_CHECK(least >= 0, "rope: a row has position {}", least);
  return int64_t{most} + 1;
}

}  // namespace

void rope_cpu(Stream& stream, const AttentionShape& shape, const RotaryTable& table,
              const RowPositions& positions, Rotation rotation, Tensor& qkv) {
  const int64_t rows = shape.batch * shape.length;
  std::span<const int32_t> each;
  if (positions.rows.defined()) each = {positions.rows.data<int32_t>(), to_size(rows)};
  const int64_t first = each.empty() ? positions.first : 0;
  const int64_t length = each.empty() ? shape.length : positions_of(each);
  const Angles& angles = angles_for(stream, table, first, length);
  const auto pairs = narrow<int64_t>(table.frequencies.size());
  const Turn turn{.heads = shape.heads + shape.kv_heads,
                  .head_dim = shape.head_dim,
                  .pairs = pairs,
                  .step = table.pairs_neighbours ? 2 : 1,
                  .apart = table.pairs_neighbours ? 1 : pairs,
                  .sign = rotation == Rotation::kForward ? 1.0F : -1.0F};
  stream.pool().parallel_for(rows, 4, [&](int64_t begin, int64_t end) {
    on_float(qkv.dtype(), [&]<class T>() {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t place = each.empty() ? row % shape.length : int64_t{nth(each, row)};
        turn_heads(turn, qkv.data<T>() + row * shape.packed(), &nth(angles.cosine, place * pairs),
                   &nth(angles.sine, place * pairs));
      }
    });
  });
}

}  // namespace ds::kernels::detail
