// Token and position embedding on CUDA devices. A block takes a row of the result and its threads
// packs of columns; rows that make up a gradient are added up in their order, in fp32, each column
// by one thread.
#include <algorithm>
#include <cmath>

#include "core/device/dispatch.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/flags.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding/embedding_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;
using cuda::Pack;

struct Lookup {
  int64_t rows, columns, vocabulary;
  int64_t length = 1, first_position = 0;
  int64_t first, here;  // the table has rows [first, first + here) of the vocabulary
};

// positions may be null.
template <int N, class T>
__global__ void embedding_kernel(Lookup lookup, const int32_t* tokens, const T* table,
                                 const T* positions, T* y, uint32_t* flags) {
  const int64_t columns = lookup.columns;
  for (int64_t row = blockIdx.x; row < lookup.rows; row += gridDim.x) {
    const int64_t token = tokens[row];
    const bool known = token >= 0 && token < lookup.vocabulary;
    if (!known && threadIdx.x == 0) {
      cuda::set_flag(DeviceFlag::kTokenOutsideVocabulary, flags);
    }
    const int64_t in_table = token - lookup.first;
    const bool is_here = known && in_table >= 0 && in_table < lookup.here;
    const int64_t place = positions == nullptr ? 0 : lookup.first_position + row % lookup.length;
    for (int64_t c = int64_t{threadIdx.x} * N; c < columns; c += int64_t{blockDim.x} * N) {
      Pack<T, N> result;
      if (is_here) {
        result = cuda::load<N>(table + in_table * columns + c);
      } else {
        const float other = known ? 0.0F : NAN;
        for (int i = 0; i < N; ++i) result.values[i] = static_cast<T>(other);
      }
      if (known && positions != nullptr) {
        const Pack<T, N> position = cuda::load<N>(positions + place * columns + c);
        for (int i = 0; i < N; ++i) {
          result.values[i] = static_cast<T>(static_cast<float>(result.values[i]) +
                                            static_cast<float>(position.values[i]));
        }
      }
      cuda::store(result, y + row * columns + c);
    }
  }
}

// y = (or +=) the sum of dy's rows row_at(0) .. row_at(count - 1); a negative row is none.
template <int N, class TX, class TY, class RowAt>
__device__ void add_rows(const TX* dy, const RowAt& row_at, int64_t count, int64_t columns,
                         Write write, TY* y) {
  constexpr int kAhead = 4;  // rows that are read before the first of them is added
  for (int64_t c = int64_t{threadIdx.x} * N; c < columns; c += int64_t{blockDim.x} * N) {
    float total[N] = {};
    if (write == Write::kAccumulate) {
      const Pack<TY, N> before = cuda::load<N>(static_cast<const TY*>(y) + c);
      for (int i = 0; i < N; ++i) total[i] = static_cast<float>(before.values[i]);
    }
    for (int64_t k = 0; k < count; k += kAhead) {
      Pack<TX, N> read[kAhead] = {};
      for (int a = 0; a < kAhead; ++a) {
        const int64_t row = k + a < count ? row_at(k + a) : -1;
        if (row >= 0) read[a] = cuda::load<N>(dy + row * columns + c);
      }
      for (int a = 0; a < kAhead; ++a) {
        for (int i = 0; i < N; ++i) total[i] += static_cast<float>(read[a].values[i]);
      }
    }
    Pack<TY, N> result;
    for (int i = 0; i < N; ++i) result.values[i] = static_cast<TY>(total[i]);
    cuda::store(result, y + c);
  }
}

// order: row numbers, those of one target consecutive; targets[i] is the target of order[i]. Where
// a target's rows begin, a block adds up all of them.
template <int N, class TX, class TY>
__global__ void scatter_kernel(Lookup table, Write write, const int32_t* order, const TX* dy,
                               TY* dtable, uint32_t* flags) {
  const int64_t rows = table.rows;
  const int32_t* const targets = order + rows;
  for (int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
    const int64_t target = targets[i];
    if (i > 0 && targets[i - 1] == target) continue;
    if (target < 0 || target >= table.vocabulary) {
      if (threadIdx.x == 0) cuda::set_flag(DeviceFlag::kTokenOutsideVocabulary, flags);
      continue;
    }
    const int64_t in_table = target - table.first;
    if (in_table < 0 || in_table >= table.here) continue;
    int64_t end = i + 1;
    while (end < rows && targets[end] == target) ++end;
    const auto row_at = [&](int64_t k) {
      const int64_t row = order[i + k];
      if (row >= 0 && row < rows) return row;
      cuda::set_flag(DeviceFlag::kRowOutsideOrder, flags);
      return int64_t{-1};
    };
    add_rows<N>(dy, row_at, end - i, table.columns, write, dtable + in_table * table.columns);
  }
}

// Row t of dpositions gets rows t, t + length, t + 2 length, ... of dy.
template <int N, class TX, class TY>
__global__ void fold_kernel(int64_t rows, int64_t columns, int64_t length, Write write,
                            const TX* dy, TY* dpositions) {
  const int64_t positions = length < rows ? length : rows;
  for (int64_t t = blockIdx.x; t < positions; t += gridDim.x) {
    const auto row_at = [&](int64_t k) { return t + k * length; };
    add_rows<N>(dy, row_at, (rows - t + length - 1) / length, columns, write,
                dpositions + t * columns);
  }
}

constexpr int kScanThreads = 256;

// One block. Each thread counts in a piece of the tokens of its own how many of them are another
// than the one before, and then writes these where those of the threads before end.
__global__ void distinct_tokens_kernel(int64_t tokens, const int32_t* sorted, int64_t room,
                                       int32_t* rows) {
  DS_SHARED(int64_t, counts, kScanThreads + 1);
  const int64_t piece = (tokens + kScanThreads - 1) / kScanThreads;
  const int64_t first = int64_t{threadIdx.x} * piece;
  const int64_t past = first + piece < tokens ? first + piece : tokens;
  const auto is_new = [&](int64_t i) { return i == 0 || sorted[i] != sorted[i - 1]; };
  int64_t mine = 0;
  for (int64_t i = first; i < past; ++i) mine += is_new(i) ? 1 : 0;
  counts[threadIdx.x + 1] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    counts[0] = 0;
    for (int t = 0; t < kScanThreads; ++t) counts[t + 1] += counts[t];
  }
  __syncthreads();
  int64_t place = counts[threadIdx.x];
  for (int64_t i = first; i < past; ++i) {
    if (!is_new(i)) continue;
    if (place < room) rows[place] = sorted[i];
    ++place;
  }
  for (int64_t i = counts[kScanThreads] + threadIdx.x; i < room; i += kScanThreads) {
    rows[i] = kNoRow;
  }
}

template <int N, class TX, class TY>
__global__ void take_rows_kernel(int64_t count, int64_t columns, int64_t vocabulary,
                                 const TX* table, const int32_t* rows, TY* values,
                                 uint32_t* flags) {
  for (int64_t k = blockIdx.x; k < count; k += gridDim.x) {
    const int64_t row = rows[k];
    const bool known = row >= 0 && row < vocabulary;
    if (!known && row != kNoRow && threadIdx.x == 0) {
      cuda::set_flag(DeviceFlag::kTokenOutsideVocabulary, flags);
    }
    for (int64_t c = int64_t{threadIdx.x} * N; c < columns; c += int64_t{blockDim.x} * N) {
      Pack<TX, N> read = {};
      if (known) read = cuda::load<N>(table + row * columns + c);
      Pack<TY, N> result;
      for (int i = 0; i < N; ++i) {
        result.values[i] = static_cast<TY>(static_cast<float>(read.values[i]));
      }
      cuda::store(result, values + k * columns + c);
    }
  }
}

// Returns where an ascending list has a row, or -1.
__device__ inline int64_t place_of(const int32_t* list, int64_t count, int32_t row) {
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (list[middle] < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < count && list[low] == row ? low : -1;
}

struct PartRows {
  int64_t parts, count, columns, vocabulary;
};

// A block takes a place, and adds up its row where no part before has it.
template <int N, class TX, class TY>
__global__ void sum_rows_kernel(PartRows of, const int32_t* rows, const TX* values, Write write,
                                TY* table, uint32_t* flags) {
  for (int64_t place = blockIdx.x; place < of.parts * of.count; place += gridDim.x) {
    const int32_t row = rows[place];
    if (row == kNoRow) continue;
    if (row < 0 || row >= of.vocabulary) {
      if (threadIdx.x == 0) cuda::set_flag(DeviceFlag::kTokenOutsideVocabulary, flags);
      continue;
    }
    const int64_t part = place / of.count;
    bool is_first = true;
    for (int64_t p = 0; p < part && is_first; ++p) {
      is_first = place_of(rows + p * of.count, of.count, row) < 0;
    }
    if (!is_first) continue;
    for (int64_t c = int64_t{threadIdx.x} * N; c < of.columns; c += int64_t{blockDim.x} * N) {
      float total[N];
      const Pack<TX, N> own = cuda::load<N>(values + place * of.columns + c);
      for (int i = 0; i < N; ++i) total[i] = static_cast<float>(own.values[i]);
      for (int64_t p = part + 1; p < of.parts; ++p) {
        const int64_t at = place_of(rows + p * of.count, of.count, row);
        if (at < 0) continue;
        const Pack<TX, N> read = cuda::load<N>(values + (p * of.count + at) * of.columns + c);
        for (int i = 0; i < N; ++i) total[i] += static_cast<float>(read.values[i]);
      }
      TY* const to = table + row * of.columns + c;
      Pack<TY, N> result = {};
      if (write == Write::kAccumulate) result = cuda::load<N>(static_cast<const TY*>(to));
      for (int i = 0; i < N; ++i) {
        float sum = total[i];
        if (sizeof(TY) < sizeof(float)) sum = static_cast<float>(static_cast<TX>(sum));
        if (write == Write::kAccumulate) sum = static_cast<float>(result.values[i]) + sum;
        result.values[i] = static_cast<TY>(sum);
      }
      cuda::store(result, to);
    }
  }
}

}  // namespace

void embedding_forward_cuda(Stream& stream, const Tensor& tokens, const Tensor& table,
                            const Tensor& positions, int64_t length, int64_t first_position,
                            Tensor& y, const TablePart& part) {
  const int64_t columns = table.shape()[1];
  const Lookup lookup{.rows = y.numel() / columns,
                      .columns = columns,
                      .vocabulary = part.vocabulary_of(table),
                      .length = length,
                      .first_position = first_position,
                      .first = part.first,
                      .here = table.shape()[0]};
  on_float(y.dtype(), [&]<class T>() {
    constexpr int kPack = cuda::kPackOf<T>;
    const auto* from = elements<const T>(table);
    const auto* places = elements<const T>(positions);
    auto* to = elements<T>(y);
    const bool packed = cuda::rows_are_packs<kPack>(columns, from, places, to);
    cuda::launch("embedding_forward", packed ? embedding_kernel<kPack, T> : embedding_kernel<1, T>,
                 cuda::shape_for_rows(lookup.rows, packed ? columns / kPack : columns), stream,
                 lookup, elements<const int32_t>(tokens), from, places, to,
                 DeviceFlags(stream).word());
  });
}

void embedding_backward_cuda(Stream& stream, const Tensor& order, const Tensor& dy, Write write,
                             Tensor& dtable, const TablePart& part) {
  if (write == Write::kOverwrite) fill(stream, dtable, 0.0F);  // rows that no token has
  const int64_t columns = dtable.shape()[1];
  const Lookup table{.rows = dy.numel() / columns,
                     .columns = columns,
                     .vocabulary = part.vocabulary_of(dtable),
                     .first = part.first,
                     .here = dtable.shape()[0]};
  on_float(dy.dtype(), [&]<class TX>() {
    on_float(dtable.dtype(), [&]<class TY>() {
      constexpr int kPack = cuda::kPackOf<TX, TY>;
      const auto* from = elements<const TX>(dy);
      auto* to = elements<TY>(dtable);
      const bool packed = cuda::rows_are_packs<kPack>(columns, from, to);
      cuda::launch(
          "embedding_backward", packed ? scatter_kernel<kPack, TX, TY> : scatter_kernel<1, TX, TY>,
          cuda::shape_for_rows(table.rows, packed ? columns / kPack : columns), stream, table,
          write, elements<const int32_t>(order), from, to, DeviceFlags(stream).word());
    });
  });
}

void position_backward_cuda(Stream& stream, const Tensor& dy, int64_t length, Write write,
                            Tensor& dpositions) {
  if (write == Write::kOverwrite) fill(stream, dpositions, 0.0F);  // those beyond `length`
  const int64_t columns = dpositions.shape()[1];
  const int64_t rows = dy.numel() / columns;
  on_float(dy.dtype(), [&]<class TX>() {
    on_float(dpositions.dtype(), [&]<class TY>() {
      constexpr int kPack = cuda::kPackOf<TX, TY>;
      const auto* from = elements<const TX>(dy);
      auto* to = elements<TY>(dpositions);
      const bool packed = cuda::rows_are_packs<kPack>(columns, from, to);
      cuda::launch("position_backward",
                   packed ? fold_kernel<kPack, TX, TY> : fold_kernel<1, TX, TY>,
                   cuda::shape_for_rows(std::min(length, rows), packed ? columns / kPack : columns),
                   stream, rows, columns, length, write, from, to);
    });
  });
}

void distinct_tokens_cuda(Stream& stream, const Tensor& order, Tensor& rows) {
  const int64_t tokens = order.numel() / 2;
  cuda::launch("distinct_tokens", distinct_tokens_kernel, {.blocks = 1, .threads = kScanThreads},
               stream, tokens, elements<const int32_t>(order) + tokens, rows.numel(),
               elements<int32_t>(rows));
}

void take_rows_cuda(Stream& stream, const Tensor& table, const Tensor& rows, Tensor& values) {
  const int64_t columns = table.shape()[1];
  on_float(table.dtype(), [&]<class TX>() {
    on_float(values.dtype(), [&]<class TY>() {
      constexpr int kPack = cuda::kPackOf<TX, TY>;
      const auto* from = elements<const TX>(table);
      auto* to = elements<TY>(values);
      const bool packed = cuda::rows_are_packs<kPack>(columns, from, to);
      cuda::launch("take_rows",
                   packed ? take_rows_kernel<kPack, TX, TY> : take_rows_kernel<1, TX, TY>,
                   cuda::shape_for_rows(rows.numel(), packed ? columns / kPack : columns), stream,
                   rows.numel(), columns, table.shape()[0], from, elements<const int32_t>(rows), to,
                   DeviceFlags(stream).word());
    });
  });
}

void sum_rows_cuda(Stream& stream, const Tensor& rows, const Tensor& values, int64_t parts,
                   Write write, Tensor& table) {
  const int64_t columns = table.shape()[1];
  const PartRows of{.parts = parts,
                    .count = rows.numel() / parts,
                    .columns = columns,
                    .vocabulary = table.shape()[0]};
  on_float(values.dtype(), [&]<class TX>() {
    on_float(table.dtype(), [&]<class TY>() {
      constexpr int kPack = cuda::kPackOf<TX, TY>;
      const auto* from = elements<const TX>(values);
      auto* to = elements<TY>(table);
      const bool packed = cuda::rows_are_packs<kPack>(columns, from, to);
      cuda::launch("sum_rows", packed ? sum_rows_kernel<kPack, TX, TY> : sum_rows_kernel<1, TX, TY>,
                   cuda::shape_for_rows(rows.numel(), packed ? columns / kPack : columns), stream,
                   of, elements<const int32_t>(rows), from, write, to, DeviceFlags(stream).word());
    });
  });
}

}  // namespace ds::kernels::detail
