// Quantizers on the CPU: the steps of quantize_math.h on chunks of numbers, which are converted to
// fp32 and back on the way. Parts of groups are shared among threads, and joined in order.
#include "kernels/quantize/quantize_cpu.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/values/index.h"
#include "kernels/elementwise/spans.h"
#include "kernels/quantize/code_spans.h"

namespace ds::kernels::detail {
namespace {

constexpr int64_t kChunk = kLeastPart;  // even: two threads never share a byte of codes

void* element(const Tensor& tensor, int64_t i) {
  return static_cast<std::byte*>(tensor.address()) +
         i * static_cast<int64_t>(size_of(tensor.dtype()));
}

struct Numbers {
  const Tensor& tensor;
  void read(int64_t first, std::span<float> to) const {
    cast_span(element(tensor, first), tensor.dtype(), to.data(), DType::kF32,
              narrow<int64_t>(to.size()));
  }
  void write(int64_t first, std::span<const float> from) const {
    cast_span(from.data(), DType::kF32, element(tensor, first), tensor.dtype(),
              narrow<int64_t>(from.size()));
  }
};

template <class T, class Group>
void for_runs(std::span<T> chunk, int64_t first, int64_t group_size, const Group& use) {
  for (size_t begin = 0; begin < chunk.size();) {
    const int64_t at = first + narrow<int64_t>(begin);
    const size_t left = to_size(group_size - at % group_size);
    const size_t count = std::min(left, chunk.size() - begin);
    use(at / group_size, begin, count);
    begin += count;
  }
}

// use(first, chunk), with the numbers that `source` reads.
template <class Source, class Use>
void for_chunks(Stream& stream, int64_t numel, const Source& source, const Use& use) {
  stream.pool().parallel_for(numel, kChunk, [&](int64_t begin, int64_t end) {
    std::array<float, kChunk> numbers;
    for (int64_t first = begin; first < end; first += kChunk) {
      const std::span<float> chunk(numbers.data(), to_size(std::min(kChunk, end - first)));
      source.read(first, chunk);
      use(first, chunk);
    }
  });
}

// finish(group, what `of` makes of its numbers); of_parts has room for all parts.
template <class Statistic, class Source, class Of, class Finish>
void for_groups(Stream& stream, const GroupParts& parts, const Source& source, Statistic* of_parts,
                const Of& of, const Finish& finish) {
  stream.pool().parallel_for(parts.count(), 1, [&](int64_t begin, int64_t end) {
    std::array<float, kChunk> numbers;
    for (int64_t index = begin; index < end; ++index) {
      Statistic statistic;
      for (int64_t first = parts.begin(index); first < parts.end(index); first += kChunk) {
        const int64_t count = std::min(kChunk, parts.end(index) - first);
        const std::span<float> chunk(numbers.data(), to_size(count));
        source.read(first, chunk);
        statistic = joined(statistic, of(parts.group_of(index), chunk));
      }
      of_parts[index] = statistic;
    }
  });
  stream.pool().parallel_for(parts.groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      Statistic statistic;
      for (int64_t part = 0; part < parts.of_group; ++part) {
        statistic = joined(statistic, of_parts[group * parts.of_group + part]);
      }
      finish(group, statistic);
    }
  });
}

Range range_in(int64_t /*group*/, std::span<const float> chunk) { return range_of(chunk); }
// This is for callers to whom it makes no difference which zero is meant.
Range any_range_in(int64_t /*group*/, std::span<const float> chunk) { return range_span(chunk); }

void find_scales(Stream& stream, const FakeOperands& o) {
  const FakeQuant& how = o.how;
  if (how.static_range) {
    o.scales[0] = fake_scale_of(how.scheme, how.bits,
                                {.low = how.static_range->first, .high = how.static_range->second});
    return;
  }
  for_groups(stream, o.parts, Numbers{o.x}, o.ranges, range_in, [&](int64_t group, Range range) {
    o.scales[group] = fake_scale_of(how.scheme, how.bits, range);
  });
}

void find_levels(Stream& stream, const FakeOperands& o) {
  const bool is_binary = o.how.scheme == QuantScheme::kBinary;
  for_groups(
      stream, o.parts, Numbers{o.x}, o.magnitudes,
      [](int64_t, std::span<const float> chunk) { return magnitudes_above(kAllMagnitudes, chunk); },
      [&](int64_t group, Magnitudes all) {
        o.levels[group] = is_binary ? binary_of(all) : FakeMagnitude{ternary_threshold(all), 0.0F};
      });
  if (is_binary) return;
  for_groups(
      stream, o.parts, Numbers{o.x}, o.magnitudes,
      [&](int64_t group, std::span<const float> chunk) {
        return magnitudes_above(o.levels[group].threshold, chunk);
      },
      [&](int64_t group, Magnitudes above) {
        o.levels[group] = ternary_of(o.levels[group].threshold, above);
      });
}

struct Codes {
  const CodesView& view;

  void read(int64_t first, std::span<float> to) const {
    std::array<int8_t, kChunk> room;
    const std::span<const int8_t> codes(view.bits == 4 ? room.data() : view.q + first, to.size());
    if (view.bits == 4) {
      const auto lead = to_size(first % 2);  // a group may begin in the middle of a byte
      if (lead != 0) room[0] = static_cast<int8_t>(view.code(first));
      const size_t left = to.size() - lead;
      unpack_nibbles_span({view.q + (first + 1) / 2, (left + 1) / 2},
                          std::span(room).subspan(lead, left));
    }
    for_runs(to, first, view.group_size, [&](int64_t group, size_t begin, size_t count) {
      int_values_span(codes.subspan(begin, count), view.scale_of(group), to.subspan(begin, count));
    });
  }
  void write(int64_t first, std::span<const float> from) const {
    std::array<int8_t, kChunk> room;
    const std::span<int8_t> codes(view.bits == 4 ? room.data() : view.q + first, from.size());
    for_runs(from, first, view.group_size, [&](int64_t group, size_t begin, size_t count) {
      int_codes_span(from.subspan(begin, count), view.bits, view.scale_of(group),
                     codes.subspan(begin, count));
    });
    if (view.bits == 4) pack_nibbles_span(codes, {view.q + first / 2, (codes.size() + 1) / 2});
  }
};

struct SumOfCodes {
  const RankCodes& ranks;

  void read(int64_t first, std::span<float> to) const {
    std::array<float, kChunk> room;
    const std::span<float> term(room.data(), to.size());
    Codes{ranks.of(0)}.read(first, to);
    for (int64_t rank = 1; rank < ranks.ranks; ++rank) {
      const CodesView view = ranks.of(rank);
      Codes{view}.read(first, term);
      accumulate_span(term.data(), DType::kF32, to.data(), DType::kF32, narrow<int64_t>(to.size()));
    }
  }
};

struct Levels {
  const LevelsView& view;

  std::span<uint8_t> codes(int64_t first, size_t count) const {
    if (view.how.bits == 4) return {view.q + first / 2, count / 2};  // columns are even
    return {view.q + first, count};
  }
  std::span<float> all(float* of_groups) const {
    return {of_groups, to_size(view.how.group_count())};
  }
  void read(int64_t first, std::span<float> to) const {
    dequantize_groups_part(codes(first, to.size()), view.how, first, all(view.scale), all(view.min),
                           to);
  }
  void write(int64_t first, std::span<const float> from) const {
    quantize_groups_part(from, view.how, first, all(view.scale), all(view.min),
                         codes(first, from.size()));
  }
};

// Groups that a chunk holds are read once, for their ranges and for their codes. No two share a
// byte.
template <class Source>
void quantize_groupwise(Stream& stream, const Source& source, const GroupParts& parts,
                        const CodesView& to) {
  stream.pool().parallel_for(parts.groups, 1, [&](int64_t begin, int64_t end) {
    std::array<float, kChunk> numbers;
    const std::span<float> chunk(numbers.data(), to_size(parts.size));
    for (int64_t group = begin; group < end; ++group) {
      source.read(group * parts.size, chunk);
      to.set_scale(group, int_scale_of(to.range, to.bits, range_span(chunk)));
      Codes{to}.write(group * parts.size, chunk);
    }
  });
}

template <class Source>
void quantize(Stream& stream, const Source& source, const GroupParts& parts, Range* ranges,
              const CodesView& to) {
  if (parts.size <= kChunk && (to.bits != 4 || parts.size % 2 == 0)) {
    return quantize_groupwise(stream, source, parts, to);
  }
  for_groups(stream, parts, source, ranges, any_range_in, [&](int64_t group, Range range) {
    to.set_scale(group, int_scale_of(to.range, to.bits, range));
  });
  for_chunks(stream, parts.groups * parts.size, source,
             [&](int64_t first, std::span<const float> chunk) { Codes{to}.write(first, chunk); });
}

}  // namespace

void fake_quantize_cpu(Stream& stream, const FakeOperands& o) {
  const bool by_magnitude = o.how.by_magnitude();
  by_magnitude ? find_levels(stream, o) : find_scales(stream, o);
  const auto put = [&](int64_t first, std::span<float> chunk) {
    for_runs(chunk, first, o.parts.size, [&](int64_t group, size_t begin, size_t count) {
      const std::span<float> run = chunk.subspan(begin, count);
      if (by_magnitude) {
        fake_quantize_part(run, o.levels[group], run);
      } else {
        fake_quantize_part(run, o.scales[group], o.how.stochastic, first + narrow<int64_t>(begin),
                           run);
      }
    });
    Numbers{o.y}.write(first, chunk);
  };
  for_chunks(stream, o.x.numel(), Numbers{o.x}, put);
}

void quantize_groups_cpu(Stream& stream, const Tensor& x, const LevelsView& to) {
  const GroupQuant& how = to.how;
  const std::span<float> min(to.min, to_size(how.group_count()));
  const std::span<float> scale(to.scale, min.size());
  std::ranges::fill(min, Range{}.low);
  std::ranges::fill(scale, Range{}.high);
  // Bands of rows that share no group with others.
  const int64_t rows = how.group_axis == 0 ? how.group_size : 1;
  stream.pool().parallel_for(how.rows / rows, 1, [&](int64_t begin, int64_t end) {
    std::array<float, kChunk> numbers;
    const int64_t last = end * rows * how.columns;
    for (int64_t first = begin * rows * how.columns; first < last; first += kChunk) {
      const std::span<float> chunk(numbers.data(), to_size(std::min(kChunk, last - first)));
      Numbers{x}.read(first, chunk);
      widen_ranges(chunk, how, first, min, scale);
    }
  });
  for (int64_t group = 0; group < how.group_count(); ++group) {
    to.set_scale(group, group_scale_of(how.bits, {to.min[group], to.scale[group]}));
  }
  for_chunks(stream, x.numel(), Numbers{x},
             [&](int64_t first, std::span<const float> chunk) { Levels{to}.write(first, chunk); });
}

void dequantize_groups_cpu(Stream& stream, const LevelsView& from, const Tensor& y) {
  for_chunks(stream, y.numel(), Levels{from},
             [&](int64_t first, std::span<const float> chunk) { Numbers{y}.write(first, chunk); });
}

void quantize_int_cpu(Stream& stream, const Tensor& x, const GroupParts& parts, Range* ranges,
                      const CodesView& to) {
  quantize(stream, Numbers{x}, parts, ranges, to);
}

void dequantize_int_cpu(Stream& stream, const CodesView& from, const Tensor& y) {
  for_chunks(stream, y.numel(), Codes{from},
             [&](int64_t first, std::span<const float> chunk) { Numbers{y}.write(first, chunk); });
}

void sum_codes_cpu(Stream& stream, const RankCodes& from, const GroupParts& parts, Range* ranges,
                   const CodesView& to) {
  quantize(stream, SumOfCodes{from}, parts, ranges, to);
}

}  // namespace ds::kernels::detail
