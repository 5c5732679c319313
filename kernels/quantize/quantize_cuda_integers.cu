// The integer form of communication on CUDA devices.
#include "core/device/dispatch.h"
#include "kernels/quantize/groups.cuh"
#include "kernels/quantize/quantize_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::kWide;

// Codes of N neighbouring numbers; 4 bits have those of a pair in one byte.
template <int N>
__device__ void load_codes(const CodesView& view, int64_t first, int64_t end, int* codes) {
  if constexpr (N == kWide) {
    if (view.bits == 4) {
      const auto pack = cuda::load<N / 2>(static_cast<const int8_t*>(view.q) + first / 2);
      for (int i = 0; i < N; ++i) {
        codes[i] = signed_nibble(static_cast<uint8_t>(pack.values[i / 2]), i % 2 == 0);
      }
    } else {
      const auto pack = cuda::load<N>(static_cast<const int8_t*>(view.q) + first);
      for (int i = 0; i < N; ++i) codes[i] = pack.values[i];
    }
  } else {
    for (int i = 0; i < N; ++i) codes[i] = first + i < end ? view.code(first + i) : 0;
  }
}

template <int N>
__device__ void store_codes(const CodesView& view, int64_t first, int64_t end, const int* codes) {
  if (view.bits == 4) {
    cuda::Pack<int8_t, N / 2> pack;
    for (int i = 0; i < N; i += 2) {
      pack.values[i / 2] = static_cast<int8_t>(packed_nibbles(codes[i], codes[i + 1]));
    }
    cuda::store(pack, view.q + first / 2);
  } else if (N == kWide) {
    cuda::Pack<int8_t, N> pack;
    for (int i = 0; i < N; ++i) pack.values[i] = static_cast<int8_t>(codes[i]);
    cuda::store(pack, view.q + first);
  } else {
    for (int i = 0; i < N && first + i < end; ++i) {
      view.q[first + i] = static_cast<int8_t>(codes[i]);
    }
  }
}

bool codes_are_packs(const CodesView& view) {
  return view.bits == 4 ? cuda::is_aligned<kWide / 2>(view.q) : cuda::is_aligned<kWide>(view.q);
}

struct CodeSource {
  CodesView view;

  bool has_packs() const { return codes_are_packs(view); }
  template <int N>
  __device__ void read(int64_t first, int64_t end, float* to) const {
    int codes[N];
    load_codes<N>(view, first, end, codes);
    const int64_t group = first / view.group_size;
    for (int i = 0; i < N; ++i) {
      to[i] = 0;
      if (N != kWide && first + i >= end) continue;
      to[i] =
          int_value(view.scale_of(N == kWide ? group : (first + i) / view.group_size), codes[i]);
    }
  }
};

// In rank order, from 0.
struct SumSource {
  RankCodes ranks;

  bool has_packs() const {
    return ranks.first.group_size % kWide == 0 && codes_are_packs(ranks.first);
  }
  template <int N>
  __device__ void read(int64_t first, int64_t end, float* to) const {
    for (int i = 0; i < N; ++i) to[i] = 0;
    for (int64_t rank = 0; rank < ranks.ranks; ++rank) {
      float term[N];
      CodeSource{ranks.of(rank)}.template read<N>(first, end, term);
      for (int i = 0; i < N; ++i) to[i] += term[i];
    }
  }
};

struct CodeSink {
  CodesView view;

  bool has_packs() const { return codes_are_packs(view); }
  template <int N>
  __device__ void write(int64_t first, int64_t end, const float* x) const {
    const int64_t group = first / view.group_size;
    int codes[N];
    for (int i = 0; i < N; ++i) {
      codes[i] = 0;
      if (N != kWide && first + i >= end) continue;
      const int64_t of_number = N == kWide ? group : (first + i) / view.group_size;
      codes[i] = int_code(view.scale_of(of_number), view.bits, x[i]);
    }
    store_codes<N>(view, first, end, codes);
  }
};

struct SetScale {
  CodesView view;
  __device__ void operator()(int64_t group, Range range) const {
    view.set_scale(group, int_scale_of(view.range, view.bits, range));
  }
};

template <class Source>
void quantize(std::string_view name, Stream& stream, const Source& source, const GroupParts& parts,
              Range* ranges, const CodesView& to) {
  cuda::for_groups(name, stream, parts, source, cuda::RangeOf{}, ranges, SetScale{to});
  cuda::convert(name, stream, parts.groups * parts.size, parts.size, source, CodeSink{to});
}

}  // namespace

void quantize_int_cuda(Stream& stream, const Tensor& x, const GroupParts& parts, Range* ranges,
                       const CodesView& to) {
  on_float(x.dtype(), [&]<class T>() {
    quantize("quantize_int", stream, cuda::NumberSource<T>{cuda::elements<const T>(x)}, parts,
             ranges, to);
  });
}

void dequantize_int_cuda(Stream& stream, const CodesView& from, const Tensor& y) {
  on_float(y.dtype(), [&]<class T>() {
    cuda::convert("dequantize_int", stream, y.numel(), from.group_size, CodeSource{from},
                  cuda::NumberSink<T>{cuda::elements<T>(y)});
  });
}

void sum_codes_cuda(Stream& stream, const RankCodes& from, const GroupParts& parts, Range* ranges,
                    const CodesView& to) {
  quantize("sum_codes", stream, SumSource{from}, parts, ranges, to);
}

}  // namespace ds::kernels::detail
