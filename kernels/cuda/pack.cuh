// Packs: neighbouring elements that a thread reads or writes with one access of up to 16 bytes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.cuh"

namespace ds::cuda {

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};

inline constexpr int kPackBytes = 16;

// Elements of a pack of which the widest type fills 16 bytes.
template <class... T>
inline constexpr int kPackOf = kPackBytes / static_cast<int>(std::max({sizeof(T)...}));

template <int N, class T>
bool is_aligned(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % (sizeof(T) * N) == 0;
}

// A GPU faults where a pack is not aligned; so does the emulated one.
template <int N, class T>
__device__ void require_aligned([[maybe_unused]] const T* at) {
#if !defined(__CUDACC__)
  DS_CHECK(is_aligned<N>(at), "a pack of {} bytes is not aligned", sizeof(T) * N);
#endif
}

template <int N, class T>
__device__ Pack<T, N> load(const T* from) {
  require_aligned<N>(from);
  return *reinterpret_cast<const Pack<T, N>*>(from);
}

template <int N, class T>
__device__ void store(const Pack<T, N>& pack, T* to) {
  require_aligned<N>(to);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

}  // namespace ds::cuda
