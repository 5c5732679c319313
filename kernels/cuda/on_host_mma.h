// The warp-level matrix instructions of mma.cuh under a C++ compiler: all lanes have to meet there.
#pragma once

#include <array>
#include <cstdint>

namespace ds::cuda::on_host {

// ldmatrix.m8n8.x4: `row` of lane 8 i + j is row j of matrix i.
void load_matrices(const void* row, bool transposed, std::array<uint32_t, 4>& words);

// mma.m16n8k16 of BF16 or F16, and mma.m16n8k8 of tf32, whose low 13 bits are ignored. Products are
// exact, and added in fp32 in the order of the depth; a GPU has an order and roundings of its own.
template <class T>
void multiply(const std::array<uint32_t, 4>& a, const std::array<uint32_t, 2>& b,
              std::array<float, 4>& sums);
void multiply_tf32(const std::array<uint32_t, 4>& a, const std::array<uint32_t, 2>& b,
                   std::array<float, 4>& sums);

// While it lives, sums are made as tensor cores have been seen to make them (Fasi, Higham,
// Mikaitis, Pranesh: "Numerical behavior of NVIDIA tensor cores", 2021): the products of an
// instruction and what they are added to are aligned to the largest of them, cut below 2^-24 of its
// power of two, added exactly, and cut to fp32. Not for two threads at a time.
class TruncatedSums {
 public:
  TruncatedSums();
  TruncatedSums(const TruncatedSums&) = delete;  // ends it, exactly once
  TruncatedSums& operator=(const TruncatedSums&) = delete;
  ~TruncatedSums();
};

}  // namespace ds::cuda::on_host
