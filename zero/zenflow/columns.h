// (pure) Which columns of a matrix are important, and where their elements lie in what a rank has
// of it: a range of the matrix, row by row, that may begin and end anywhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ds {

// As many as the ratio has of them, rounded down, but one at least.
int64_t important_columns(int64_t columns, double ratio);

// 1 for the `count` largest, of equal ones those that come first; 0 for the others.
std::vector<uint8_t> choose_columns(std::span<const double> squares, int64_t count);

// Elements [first, first + numel) of a matrix with so many columns.
struct MatrixPart {
  int64_t first = 0;
  int64_t numel = 0;
  int64_t columns = 0;
};
// How many elements of so many columns lie in it, whichever they are: at most.
int64_t most_places(const MatrixPart& part, int64_t chosen);
// Appends where the elements of chosen columns lie, counted from `offset` at the first of the part.
void append_places(const MatrixPart& part, std::span<const uint8_t> chosen, int64_t offset,
                   std::vector<int32_t>& places);

// What the squares of a gradient come to: the root of their mean over elements of either kind.
struct GradientSizes {
  float important = 0;
  float rest = 0;  // 0 where there is none
};
GradientSizes sizes_of(std::span<const double> squares, std::span<const uint8_t> chosen,
                       int64_t rows);

}  // namespace ds
