// A rank's part of samples that several ranks share.
#pragma once

#include <cstdint>
#include <span>

namespace ds {

// What a rank has of a global batch.
struct SamplePlace {
  int rank = 0;  // among those that have other samples
  int part = 0;  // of each sample, of `parts` that are equally long, on ranks of their own
  int parts = 1;
  int ring = 1;  // ranks of one, by which parts are cut: model/parallel/sequence_rows.h
  int copy = 0;  // among ranks that have the same part
};

// Copies the place's part of each row of `whole`, [rows, length], to `out`.
void take_part(std::span<const int32_t> whole, int64_t length, const SamplePlace& place,
               std::span<int32_t> out);

}  // namespace ds
