// The sum over ranks of the gradient of a table of which each rank's tokens touch a few rows:
// (rows, values) are gathered in place of the whole matrix, and every rank adds up what has come in
// rank order, to the bits of a reduction. Room is for as many rows as a rank has tokens in a
// micro-batch, so that what travels is known before the run.
#pragma once

#include <optional>

#include "comm/contract/communicator.h"
#include "kernels/embedding/embedding.h"
#include "zero/layout/bucket_slots.h"

namespace ds {

// A rank's micro-batch touches at most `at_most` rows of a table of `columns` columns. By default
// nothing is known of it.
struct TouchedRows {
  int64_t columns = 0;
  int64_t at_most = 0;
  bool any() const { return columns > 0; }
  bool operator==(const TouchedRows&) const = default;
};

// Bytes that one of `ranks` sends of a table in a step, by rows and as a whole: what is reduced
// after each of the micro-steps, and sums that are gathered at the end.
struct TableTraffic {
  int64_t rows = 0;
  int ranks = 1;
  int micro_steps = 1;
  size_t sent_bytes = 4;  // of a number as it is sent
  size_t sum_bytes = 4;   // of one of a sum
};
int64_t bytes_by_rows(const TouchedRows& touched, const TableTraffic& of);
int64_t bytes_as_whole(const TouchedRows& touched, const TableTraffic& of);

class RowExchange {
 public:
  // All of these must outlive it. wire: in which dtype values travel; nothing: as they are.
  RowExchange(Communicator& comm, const TouchedRows& touched, std::optional<DType> wire,
              StoreStreams streams, BucketSlots& slots)
      : comm_(comm), touched_(touched), wire_(wire), streams_(streams), slots_(slots) {}

  // Room for the lists of all ranks for one table, in which this rank's is, given to the computing
  // stream: `order` may go when that has passed.
  Tensor list(const Tensor& order);
  // sum = (or +=) the sums of the listed rows over all ranks, given to the peers' stream. With
  // kOverwrite rows that no rank has listed stay as they were. `sum` may be `table`. Gives the list
  // back.
  void add_up(Tensor& lists, const Tensor& table, kernels::Write write, Tensor& sum);

 private:
  Communicator& comm_;
  const TouchedRows touched_;
  const std::optional<DType> wire_;
  const StoreStreams streams_;
  BucketSlots& slots_;
};

}  // namespace ds
