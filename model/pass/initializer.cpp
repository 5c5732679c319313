#include "model/pass/initializer.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/device/dispatch.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr int64_t kGrain = 4096;
constexpr int64_t kChunk = 256;  // normals at a time, on the stack

template <class T>
void fill_normal(const Rng& rng, float standard_deviation, int64_t first, int64_t count, T* out) {
  std::array<float, kChunk> chunk;
  for (int64_t done = 0; done < count; done += kChunk) {
    const int64_t n = std::min(kChunk, count - done);
    rng.normals(static_cast<uint64_t>(first + done), std::span(chunk).first(to_size(n)));
    for (int64_t i = 0; i < n; ++i) {
      out[done + i] = static_cast<T>(nth(chunk, i) * standard_deviation);
    }
  }
}

template <class T>
void fill_uniform(const Rng& rng, float bound, int64_t first, int64_t count, T* out) {
  for (int64_t i = 0; i < count; ++i) {
    const float from_zero = rng.uniform(static_cast<uint64_t>(first + i));
    out[i] = static_cast<T>(bound * (2.0F * from_zero - 1.0F));
  }
}

template <class T>
void fill_range(const ParamSpec& spec, uint64_t seed, int64_t begin, Tensor& range,
                ThreadPool* pool) {
  T* out = range.data<T>();
  using Kind = Initializer::Kind;
  if (spec.init.kind == Kind::kZeros || spec.init.kind == Kind::kOnes) {
    const float value = spec.init.kind == Kind::kOnes ? 1.0F : 0.0F;
    std::fill_n(out, range.numel(), static_cast<T>(value));
    return;
  }
  const Rng rng(seed, spec.name);
  const float extent = spec.init.extent;
  const std::vector<Run> runs =
      runs_of(spec.region(begin, begin + range.numel()), spec.logical_shape());
  const auto body = [&](int64_t first, int64_t last) {
    auto run = std::upper_bound(runs.begin(), runs.end(), first,
                                [](int64_t at, const Run& r) { return at < r.inside + r.numel; });
    while (first < last) {
      const int64_t end = std::min(last, run->inside + run->numel);
      const int64_t from = run->first + first - run->inside;
      if (spec.init.kind == Kind::kNormal) {
        fill_normal(rng, extent, from, end - first, out + first);
      } else {
        fill_uniform(rng, extent, from, end - first, out + first);
      }
      first = end;
      ++run;
    }
  };
  if (pool == nullptr) {
    body(0, range.numel());
  } else {
    pool->parallel_for(range.numel(), kGrain, body);
  }
}

void check_cut(const ParamSpec& spec) {
  if (spec.cut.is_whole()) return;
  const Shape kept = spec.cut.shape_in(spec.global);
  DS_CHECK(kept == spec.shape, "parameter {}: shape {}, its cut of {} has {}", spec.name,
           spec.shape.to_string(), spec.global.to_string(), kept.to_string());
}

}  // namespace

void initialize(const ParamSpec& spec, uint64_t seed, int64_t begin, Tensor& range,
                ThreadPool* pool) {
  DS_CHECK(begin >= 0 && begin + range.numel() <= spec.shape.numel(),
           "initialize: elements [{}, {}) of {} {}", begin, begin + range.numel(), spec.name,
           spec.shape.to_string());
  check_cut(spec);
  on_float(range.dtype(), [&]<class T>() { fill_range<T>(spec, seed, begin, range, pool); });
}

}  // namespace ds
