#include "zero/reduce/row_exchange.h"

#include "comm/contract/operation.h"

namespace ds {

int64_t bytes_by_rows(const TouchedRows& touched, const TableTraffic& of) {
  const int64_t listed = of.ranks * touched.at_most;
  const auto row = static_cast<int64_t>(size_of(DType::kI32)) +
                   touched.columns * static_cast<int64_t>(of.sent_bytes);
  return of.micro_steps * wire_bytes(CommOp::kAllGather, of.ranks, listed * row);
}

int64_t bytes_as_whole(const TouchedRows& touched, const TableTraffic& of) {
  const int64_t numel = of.rows * touched.columns;
  const auto bytes = [&](size_t each) { return numel * static_cast<int64_t>(each); };
  return of.micro_steps * wire_bytes(CommOp::kReduceScatter, of.ranks, bytes(of.sent_bytes)) +
         wire_bytes(CommOp::kAllGather, of.ranks, bytes(of.sum_bytes));
}

Tensor RowExchange::list(const Tensor& order) {
  Tensor lists = slots_.take(comm_.size() * touched_.at_most, DType::kI32, streams_.compute);
  Tensor mine = lists.narrow(comm_.rank() * touched_.at_most, touched_.at_most);
  kernels::distinct_tokens(streams_.compute, order, mine);
  return lists;
}

void RowExchange::add_up(Tensor& lists, const Tensor& table, kernels::Write write, Tensor& sum) {
  const int64_t places = lists.numel(), columns = touched_.columns;
  Tensor flat = slots_.take(places * columns, wire_.value_or(table.dtype()), streams_.peers);
  Tensor values = flat.reshape({places, columns});
  const int64_t at_most = places / comm_.size(), first = comm_.rank() * at_most;
  Tensor own_rows = lists.narrow(first, at_most);
  Tensor own = flat.narrow(first * columns, at_most * columns).reshape({at_most, columns});
  kernels::take_rows(streams_.peers, table, own_rows, own);
  comm_.all_gather(own_rows, lists, streams_.peers);
  comm_.all_gather(own, values, streams_.peers);
  kernels::sum_rows(streams_.peers, lists, values, comm_.size(), write, sum);
  own_rows = own = values = Tensor();
  slots_.give_back(flat, streams_.peers);
  slots_.give_back(lists, streams_.peers);
}

}  // namespace ds
