// The CPU half of kernels/moe/expert_rows. Operands have been checked, but for the places in them.
#pragma once

#include "kernels/moe/expert_rows_operands.h"

namespace ds::kernels::detail {

void gather_expert_rows_cpu(Stream& stream, const RowsThere& args);
void return_expert_rows_cpu(Stream& stream, const RowsBack& args);
void expert_row_dots_cpu(Stream& stream, const RowsBack& args);

}  // namespace ds::kernels::detail
