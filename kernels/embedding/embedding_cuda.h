// The CUDA half of kernels/embedding. Operands have been checked, but for the numbers in them:
// those of tokens and rows that do not exist are found by the kernels, which go by embedding.h.
#pragma once

#include "kernels/embedding/embedding.h"

namespace ds::kernels::detail {

void embedding_forward_cuda(Stream& stream, const Tensor& tokens, const Tensor& table,
                            const Tensor& positions, int64_t length, int64_t first_position,
                            Tensor& y, const TablePart& part);
void embedding_backward_cuda(Stream& stream, const Tensor& order, const Tensor& dy, Write write,
                             Tensor& dtable, const TablePart& part);
void position_backward_cuda(Stream& stream, const Tensor& dy, int64_t length, Write write,
                            Tensor& dpositions);
void distinct_tokens_cuda(Stream& stream, const Tensor& order, Tensor& rows);
void take_rows_cuda(Stream& stream, const Tensor& table, const Tensor& rows, Tensor& values);
void sum_rows_cuda(Stream& stream, const Tensor& rows, const Tensor& values, int64_t parts,
                   Write write, Tensor& table);

}  // namespace ds::kernels::detail
