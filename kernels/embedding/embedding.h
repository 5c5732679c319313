// Token and position embedding, and the rows of a table's gradient on their way to other ranks.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "core/device/tensor.h"
#include "kernels/front/write.h"

namespace ds::kernels {

// The rows that a table has of a vocabulary: those of tokens [first, first + its rows). Of other
// tokens other ranks have them.
struct TablePart {
  int64_t first = 0;
  std::optional<int64_t> vocabulary = {};  // all of it; nothing: the table's rows
  int64_t vocabulary_of(const Tensor& table) const { return vocabulary.value_or(table.shape()[0]); }
};

// y [N, C] = table[tokens] (+ positions[first_position + row % length] when `positions` is
// defined). tokens int32 [N], table [V, C], positions [P, C]. Where tokens enter, they are checked
// against the vocabulary; one outside [0, V) is found here by the kernel itself, which reads
// nothing for it and, on the CPU, throws DataError with its row. On a CUDA device its row becomes
// NaN, and DeviceFlag::kTokenOutsideVocabulary is set (core/device/device_flags.h). A row that
// another rank has counts as zeros here.
void embedding_forward(Stream& stream, const Tensor& tokens, const Tensor& table,
                       const Tensor& positions, int64_t length, int64_t first_position, Tensor& y,
                       const TablePart& part = {});
// The order in which rows are added to the gradient of a table: order[0, N) are the numbers of the
// rows sorted by their tokens, rows of one token ascending, and order[N, 2N) are those tokens.
void sort_tokens(std::span<const int32_t> tokens, std::span<int32_t> order);
// The same as a tensor int32 [2, N] of the stream; waits for `tokens`, which the host sorts. On
// meta without a value.
Tensor token_order(Stream& stream, const Tensor& tokens);
// dtable[tokens[i]] += dy[i], in row order for each token (deterministic); kOverwrite clears dtable
// first. order: of sort_tokens(). A row or a token that does not exist throws DataError as above,
// before anything is written; on a CUDA device nothing is added for it, and
// DeviceFlag::kRowOutsideOrder or kTokenOutsideVocabulary is set. What belongs to a row that
// another rank has is left out.
void embedding_backward(Stream& stream, const Tensor& order, const Tensor& dy, Write write,
                        Tensor& dtable, const TablePart& part = {});
// dpositions[t] = sum over rows i with i % length == t of dy[i]; rows beyond `length` become 0.
void position_backward(Stream& stream, const Tensor& dy, int64_t length, Write write,
                       Tensor& dpositions);

// Rows of a table that a batch has touched. Where a list of them has room for more, it goes on with
// kNoRow, which is greater than every row.
inline constexpr int32_t kNoRow = std::numeric_limits<int32_t>::max();
// Each token of an order of sort_tokens() once, ascending. rows: int32, room for all that differ;
// on the CPU DataError where there are more, on a CUDA device those are left out.
void distinct_tokens(Stream& stream, const Tensor& order, Tensor& rows);
// values[k] = table[rows[k]], in the dtype of values [rows.numel(), C]; zeros for no row.
void take_rows(Stream& stream, const Tensor& table, const Tensor& rows, Tensor& values);
// The rows of several parts, one list of distinct_tokens() after the other, summed in fp32 in the
// order of the parts: table[r] = (or +=) the sum of values[k] over the places k with rows[k] == r.
// Rows that no part has stay as they were. The sum is rounded to the dtype of the values before it
// goes into a table of 16 bits, as a reduction would give it.
void sum_rows(Stream& stream, const Tensor& rows, const Tensor& values, int64_t parts, Write write,
              Tensor& table);

}  // namespace ds::kernels
